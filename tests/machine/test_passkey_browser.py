"""Passkeys in a real browser with a virtual authenticator: added on `/me`, used on `/sign-in`, removed.

Source: https://chromedevtools.github.io/devtools-protocol/tot/WebAuthn/
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from resources.servers.processes import free_port
from resources.stores.postgres import session
from serving.identity.sign_in import links
from tests.fixtures.axe import violations
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.pictures import LOOKS, saved
from tests.fixtures.serving import Site

ANN = "ann@acme.com"
MAIN = "document.querySelector('main').innerText"


@pytest.fixture
def site(site: Site) -> Site:
    """An installation without a provider that sends links by email, at a name for which browsers accept passkeys without TLS."""
    port = free_port()
    update = {
        "oidc_providers": None,
        "public_url": f"http://localhost:{port}",
        "http_port": port,
        "smtp_url": SecretStr("smtp://127.0.0.1:9"),
        "smtp_sender": "concordance@acme.com",
        "sign_in_domains": ("acme.com",),
    }
    site.settings = site.settings.model_copy(update=update)
    return site


class Device:
    """A virtual authenticator of the browser, which is asked for no touch."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        browser.call("WebAuthn.enable")
        options = {
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
            "isUserVerified": True, "automaticPresenceSimulation": True,
        }  # fmt: skip
        self._id = browser.call("WebAuthn.addVirtualAuthenticator", options=options)["authenticatorId"]

    def credentials(self) -> list[dict[str, Any]]:
        return self._browser.call("WebAuthn.getCredentials", authenticatorId=self._id)["credentials"]

    def verifies(self, is_verified: bool) -> None:
        """Say whether the person gets their PIN right."""
        self._browser.call("WebAuthn.setUserVerified", authenticatorId=self._id, isUserVerified=is_verified)

    def forget(self) -> None:
        self._browser.call("WebAuthn.clearCredentials", authenticatorId=self._id)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with running_browser(tmp_path / "profile") as browser:
        yield browser


def accessible(browser: Browser, axe: str) -> None:
    """Check the page in every look that a person may have."""
    for width, dark in LOOKS.values():
        browser.look(width=width, dark=dark)
        assert violations(browser, axe) == []
        assert browser.fits(width)
    browser.look()


def sign_in_by_link(site: Site, browser: Browser) -> None:
    with session(site.settings.postgres_dsn) as connection:
        link = links.make(site.settings, connection, ANN, administrator=False, by="root", now=datetime.now(UTC))
    browser.goto(link)
    browser.click("#link button")


def submitted(browser: Browser, form: str, done: str) -> None:
    """Press a form's button and wait until this is true."""
    browser.evaluate(f"document.querySelector('{form} button').click()")
    browser.wait(lambda page: page.evaluate(f"!!({done})"), f"not so after pressing {form}: {done}")


def test_a_passkey_from_the_first_link_to_its_end(site: Site, browser: Browser, axe: str) -> None:
    with site.running(port=site.settings.http_port) as running:
        device = Device(browser)
        sign_in_by_link(site, browser)
        browser.goto(f"{site.settings.public_url}/me")
        browser.fill("#passkey-name", "Ann's laptop")
        accessible(browser, axe)
        submitted(browser, "#new-passkey", "document.querySelector('[aria-labelledby=passkeys] li')")
        (credential,) = device.credentials()
        assert (credential["rpId"], credential["isResidentCredential"]) == ("localhost", True)
        assert "Ann's laptop" in browser.evaluate("document.querySelector('[aria-labelledby=passkeys]').innerText")
        accessible(browser, axe)
        browser.evaluate("document.querySelector('[aria-labelledby=passkeys]').scrollIntoView()")
        saved(browser, "me-passkeys")
        submitted(browser, "#new-passkey", "document.querySelector('#new-passkey :invalid')")  # it wants a name
        browser.fill("#passkey-name", "Again")
        submitted(browser, "#new-passkey", "document.querySelector('#new-passkey [role=alert]').innerText")
        assert "This device already has a passkey of yours." in browser.evaluate(MAIN)
        sign_in(site, browser, axe, device)
        assert browser.complaints == []
        remove(site, browser, device)
        (refused,) = browser.complaints  # a refused sign-in is no error of the page
        assert refused.startswith("Failed to load resource: the server responded with a status of 403 (Forbidden)")
        assert {
            one for one in browser.requested if not one.startswith((str(site.settings.public_url), "about:", "data:"))
        } == set()
        running.settle()


def sign_in(site: Site, browser: Browser, axe: str, device: Device) -> None:
    """Sign out, and in again with the passkey, after a wrong PIN."""
    browser.click(".bar form.account button")
    browser.goto(f"{site.settings.public_url}/sign-in?next=/history")
    assert browser.evaluate("!document.querySelector('#passkey').hidden")
    assert [one["name"] for one in browser.cookies() if "sign-in" in one["name"]] == []
    accessible(browser, axe)
    saved(browser, "sign-in")
    device.verifies(False)
    submitted(browser, "#passkey", "document.querySelector('#passkey [role=alert]').innerText")
    assert "No passkey was used" in browser.evaluate(MAIN)
    accessible(browser, axe)
    saved(browser, "sign-in-refused")
    device.verifies(True)
    browser.click("#passkey button")
    assert browser.url == f"{site.settings.public_url}/history"
    assert browser.evaluate("document.querySelector('.me').innerText").endswith(ANN)
    assert site.sql("SELECT provider FROM sessions") == [("passkey",)]


def remove(site: Site, browser: Browser, device: Device) -> None:
    """Remove the passkey, which the device still has."""
    browser.goto(f"{site.settings.public_url}/me")
    submitted(browser, "[aria-labelledby=passkeys] li", "document.querySelector('dialog[open]')")
    submitted(browser, "dialog", "!document.querySelector('[aria-labelledby=passkeys] li')")
    assert site.sql("SELECT count(*) FROM passkeys") == [(0,)]
    browser.click(".bar form.account button")
    browser.goto(f"{site.settings.public_url}/sign-in")
    browser.click("#passkey button")
    assert "This passkey is not accepted here." in browser.evaluate(MAIN)
    device.forget()
    browser.goto(f"{site.settings.public_url}/sign-in")
    submitted(browser, "#passkey", "document.querySelector('#passkey [role=alert]').innerText")


def test_under_another_name_the_page_says_where_passkeys_work(site: Site, browser: Browser, axe: str) -> None:
    with site.running(port=site.settings.http_port) as running:
        browser.goto(f"{running.url}/sign-in")  # 127.0.0.1
        assert browser.evaluate("document.querySelector('#passkey').hidden")
        assert f"Passkeys work at {site.settings.public_url} only." in browser.evaluate(MAIN)
        assert violations(browser, axe) == []


def test_a_link_is_asked_for_without_scripts(site: Site, browser: Browser, axe: str) -> None:
    with site.running(port=site.settings.http_port):
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.goto(f"{site.settings.public_url}/sign-in")
        browser.evaluate("document.querySelector('#address').focus()")
        browser.type(ANN)
        browser.press("Enter")
        browser.wait(lambda page: "a link is on its way" in page.text, "no answer")
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
        accessible(browser, axe)
        saved(browser, "sign-in-sent")
        assert browser.complaints == []
