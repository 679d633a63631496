"""From `concordance up` to a shared answer in browsers alone: an administrator connects Slack and Drive, and a colleague asks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fixtures.axe import violations
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.drive import DriveSite
from tests.fixtures.installed import Installed
from tests.fixtures.pictures import LOOKS, saved
from tests.fixtures.slack import SlackSite

ADA, BOB = "ada@acme.example", "bob@acme.example"
QUESTION, SAID = "When does the ferry to Skerry leave?", "half past six"
SYNC_SECONDS = 120
POLICY = "default-src 'none'"


@pytest.fixture
def installed(tmp_path: Path, slack_site: SlackSite, drive_site: DriveSite) -> Iterator[Installed]:
    one = Installed(tmp_path / "home")
    one.environment |= {"CONCORDANCE_SLACK_API_URL": slack_site.url, "CONCORDANCE_DRIVE_API_URL": drive_site.url}
    yield one
    one.run("down")


def fill_the_company(slack_site: SlackSite, drive_site: DriveSite) -> None:
    slack, drive = slack_site.workspace, drive_site.drive
    ada, bob = slack.user("Ada Byron", ADA), slack.user("Bob Noyce", BOB)
    general = slack.channel("general", (ada, bob))
    slack.post(general, ada, "The canteen is closed on Friday.")
    team = drive.shared_drive("Team", {f"user:{ADA}": "reader", f"user:{BOB}": "reader"})
    text = f"# Ferry\n\nThe ferry to Skerry leaves at {SAID} every morning from the northern pier.\n"
    drive.file("Ferry.txt", team, text)


def press(browser: Browser, selector: str) -> None:
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def until(browser: Browser, expression: str, seconds: float = 30) -> None:
    browser.wait(lambda page: page.evaluate(f"!!({expression})"), expression, seconds)


def looked_at(browser: Browser, name: str, axe: str) -> None:
    """Save pictures, and fail if the page is wider than the window or not accessible, on a desktop and a phone, light and dark."""
    for width, dark in LOOKS.values():
        browser.look(width=width, dark=dark)
        browser.settle()
        assert browser.fits(width), (name, width)
        assert violations(browser, axe) == [], (name, width, dark)
    browser.look()
    saved(browser, f"alone-{name}")


def sign_in(installed: Installed, browser: Browser, email: str, *flags: str) -> str:
    """Open the link that the command prints; returns the installation's address."""
    link = re.search(r"http://\S+/sign-in/link#\S+", installed.run("sign-in", email, *flags).stdout)
    assert link is not None
    browser.look()
    browser.goto(link[0])
    browser.click("button")
    until(browser, "document.getElementById('q')")
    return f"http://{urlsplit(link[0]).netloc}"


def synced(browser: Browser, source: str) -> None:
    """Wait on the page of sources until the source has been synced."""
    card = f"document.querySelector('[data-card={source}]')"
    until(
        browser,
        f"{card} && !{card}.hasAttribute('data-running') && {card}.innerText.includes('Last synced')",
        SYNC_SECONDS,
    )


@pytest.mark.slow
def test_a_company_is_connected_asked_and_left_in_browsers_alone(
    installed: Installed, tmp_path: Path, slack_site: SlackSite, drive_site: DriveSite, axe: str
) -> None:
    fill_the_company(slack_site, drive_site)
    started = installed.run("up", "--detach")
    assert started.returncode == 0, started.stderr
    with running_browser(tmp_path / "ada") as ada, running_browser(tmp_path / "bob") as bob:
        address = sign_in(installed, ada, ADA, "--administrator")
        ada.goto(f"{address}/sources")
        looked_at(ada, "1-sources", axe)
        ada.click("a[href='/sources/slack/set-up']")
        ada.fill("#slack_bot_token", slack_site.workspace.token)
        press(ada, "form[data-check] button")
        until(ada, "document.querySelector('[data-saves]')")
        looked_at(ada, "2-slack-checked", axe)
        press(ada, "[data-saves]")
        until(ada, "location.pathname === '/sources'")
        synced(ada, "slack")
        ada.goto(f"{address}/sources/google_drive/set-up")
        ada.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        ada.fill("#google_client_id", "client.apps.googleusercontent.com")
        ada.fill("#google_client_secret", "secret")
        press(ada, "form:has(#google_client_id) button")
        until(ada, "document.querySelector('[data-saves]')")
        looked_at(ada, "3-drive-checked", axe)
        press(ada, "[data-saves]")
        until(ada, "document.body.innerText.includes('Google Drive is connected')")
        looked_at(ada, "4-drive-connected", axe)
        ada.click("a[href='/sources/google_drive/set-up']")
        press(ada, "form[data-roots] button")
        until(ada, "document.querySelector('form[data-roots] [data-saves]')")
        press(ada, "form[data-roots] [data-saves]")
        until(ada, "location.pathname === '/sources'")
        synced(ada, "google_drive")
        looked_at(ada, "5-synced", axe)

        sign_in(installed, bob, BOB)
        looked_at(bob, "6-start", axe)
        bob.type(QUESTION)
        bob.press("Enter")
        until(bob, "document.querySelector('.answer .actions')")
        assert SAID in bob.evaluate("document.querySelector('.answer .text').textContent")
        looked_at(bob, "7-answer", axe)
        bob.evaluate("document.querySelector('.answer .cite').click()")
        until(bob, "document.querySelector('#passage a[href*=\"/documents/\"]')")
        bob.click('#passage a[href*="/documents/"]')
        until(bob, "document.querySelector('mark')")
        assert SAID in bob.evaluate("[...document.querySelectorAll('mark')].map((one) => one.textContent).join(' ')")
        looked_at(bob, "8-marked", axe)
        bob.goto(f"{address}/history")
        looked_at(bob, "9-history", axe)
        bob.click("a[href^='/answers/']")
        until(bob, "document.querySelector('[data-shared]')")
        press(bob, "[data-shared]")
        until(bob, "document.querySelector('[data-shared=yes]')")
        shared = bob.url
        ada.goto(shared)
        until(ada, f"document.body.innerText.includes('{SAID}')")
        looked_at(ada, "10-shared", axe)

        off_board(installed, address, BOB)
        bob.goto(f"{address}/history")
        assert SAID not in bob.text
        assert QUESTION not in bob.text
        ada.goto(shared)
        assert SAID not in ada.text
        looked_at(ada, "11-after", axe)
        policy = httpx.get(f"{address}/sign-in").headers["content-security-policy"]
        assert (POLICY in policy, "unsafe-" in policy) == (True, False)
        for browser in (ada, bob):
            hosts = (address, drive_site.url, "data:", "about:")
            assert [one for one in browser.requested if not one.startswith(hosts)] == []


def off_board(installed: Installed, address: str, email: str) -> None:
    """Deactivate a person as the company's directory does, by SCIM."""
    made = installed.run("key", "create", "scim@acme.example", "--scim")
    key = re.search(r"ck_\S+", made.stdout)
    assert key is not None, made.stderr
    headers = {"Authorization": f"Bearer {key[0]}", "Content-Type": "application/scim+json"}
    with httpx.Client(base_url=f"{address}/scim/v2", headers=headers) as scim:
        person = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": email, "active": True}
        created = scim.post("/Users", json=person)
        assert created.status_code == 201, created.text
        operations = [{"op": "replace", "path": "active", "value": False}]
        change = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations}
        assert scim.patch(f"/Users/{created.json()['id']}", json=change).is_success
