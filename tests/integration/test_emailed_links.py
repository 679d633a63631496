"""Links that sign people in by email: who gets one, what everyone else learns, and what operators are told when none can be sent."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from pydantic import SecretStr

from orchestration.diagnosis import doctor
from resources import http_clients, mail
from resources.servers.processes import free_port
from serving.identity.sign_in import emailed
from tests.fixtures.serving import Running, Site
from tests.fixtures.smtp import PASSWORD, USER, SmtpProcess, certificate, offered_tls, running_smtp
from tests.fixtures.webhook import Webhook

ANN, EVE = "ann@acme.com", "eve@other.com"
AMBIGUOUS = [
    "=?utf-8?q?eve=40other.com=2c?=@acme.com",
    "=?utf-8?q?ann=0d=0a?=@acme.com",
    "ann%other.com@acme.com",
    "other.com!ann@acme.com",
    "änn@acme.com",
    ".ann@acme.com",
    "ann.@acme.com",
    "a..nn@acme.com",
]
"""Addresses of the domain that mail programs and servers may read as others."""
SENDER = "concordance@acme.com"
LOGGED = "Links for signing in cannot be sent by email: "


def with_mail(site: Site, url: str, **more: Any) -> Site:
    """An installation that sends links to the addresses of one domain."""
    port = free_port()
    update = {
        "oidc_providers": None,
        "public_url": f"http://127.0.0.1:{port}",
        "http_port": port,
        "smtp_url": SecretStr(url),
        "smtp_sender": SENDER,
        "sign_in_domains": ("acme.com",),
    }
    site.settings = site.settings.model_copy(update=update | more)
    return site


@pytest.fixture
def running(site: Site, smtp: SmtpProcess) -> Iterator[Running]:
    with_mail(site, f"smtp://127.0.0.1:{smtp.port}")
    with site.running(port=site.settings.http_port) as running:
        yield running


def asked(running: Running, address: str, after: str = "/", **headers: str) -> httpx.Response:
    """Ask for a link as the page does."""
    ours = {"Origin": running.url, "Sec-Fetch-Site": "same-origin", **headers}
    return running.http.post("/sign-in/email", data={"address": address, "next": after}, headers=ours)


def pressed(running: Running, token: str, **headers: str) -> httpx.Response:
    """Press the button of a link's page."""
    ours = {"Origin": running.url, "Sec-Fetch-Site": "same-origin", **headers}
    return running.http.post("/sign-in/link", data={"token": token}, headers=ours)


def token_in(message: EmailMessage) -> str:
    (link,) = [
        line for line in message.get_content().splitlines() if "/sign-in/link#" in line
    ]  # a line of its own, unbroken
    return urlsplit(link).fragment


def counted(running: Running, **outcomes: int) -> None:
    """Wait until so many requests had each outcome, and no other."""
    deadline = time.monotonic() + 60
    while True:
        text = running.metrics()
        found = {
            name: int(float(number))
            for name, number in re.findall(r'sign_in_emails_total{outcome="(\w+)"} (\S+)', text)
        }
        if found == outcomes:
            return
        assert time.monotonic() < deadline, (found, outcomes)
        time.sleep(0.02)


def audited(site: Site, running: Running) -> list[tuple[str, str, dict[str, Any]]]:
    running.settle()
    return site.sql("SELECT action, email, detail FROM audit_log WHERE action LIKE 'sign_in%%' ORDER BY event_id")


def test_a_link_signs_its_person_in_once_and_leads_to_the_page(site: Site, running: Running, smtp: SmtpProcess) -> None:
    assert 'action="/sign-in/email"' in running.http.get("/history?older=1", headers={"Accept": "text/html"}).text
    assert asked(running, " Ann@Acme.com ", "/history?older=1").status_code == 200
    (message,) = smtp.mailboxes.wait(1)
    assert (message["To"], message["From"], message["Auto-Submitted"]) == (
        ANN,
        f"Concordance <{SENDER}>",
        "auto-generated",
    )
    token = token_in(message)
    assert (
        running.http.get("/sign-in/link").status_code == 200
    )  # a scanner opens the link's page, which uses nothing up
    signed_in = pressed(running, token)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/history?older=1")
    again = pressed(running, token)
    assert (again.status_code, "This link was already used." in again.text) == (403, True)
    rows = site.sql("SELECT email, provider, administrator FROM sessions")
    assert rows == [(ANN, "email", False)]
    made, used, refused = audited(site, running)
    assert made == ("sign_in_link", ANN, {"by": "email", "administrator": False, "address": "unknown"})
    assert (used[0], used[1], used[2]["provider"], refused[2]["reason"]) == ("sign_in", ANN, "email", "replayed")
    assert token.split(".")[2] not in str(site.sql("SELECT row_to_json(a)::text FROM audit_log AS a"))


def test_a_long_path_is_returned_to_and_kept_after_a_failure(running: Running, smtp: SmtpProcess) -> None:
    """An agent's request to be connected is one."""
    after = "/oauth/authorize?" + "&".join(f"field{number}={'x' * 50}" for number in range(20))
    assert asked(running, ANN, after).status_code == 200
    (message,) = smtp.mailboxes.wait(1)
    token = token_in(message)
    assert pressed(running, token).headers["location"] == after
    assert f"/sign-in?next={quote(after, safe='')}" in pressed(running, token).text
    assert 'href="/sign-in?next=%2F"' in pressed(running, f"{token}x").text


def test_the_first_page_does_not_say_that_signing_in_is_not_set_up(running: Running) -> None:
    said = running.http.get("/").text
    assert ("Sign in" in said, "not set up" in said) == (True, False)


def test_nobody_learns_who_may_have_a_link(site: Site, running: Running, smtp: SmtpProcess) -> None:
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', 'gone@acme.com', FALSE)")
    wrong = ["gone@acme.com", "ann@acme.com.evil.example", "nobody", "", f"{ANN}\nbcc: {EVE}", "x" * 5000]
    addresses = [ANN, EVE, *wrong, *AMBIGUOUS]
    answers = [asked(running, address) for address in addresses]
    seen = {(one.status_code, one.text, *sorted(set(one.headers) - {"date"})) for one in answers}
    assert len(seen) == 1
    assert "If you may sign in here, a link is on its way." in answers[0].text
    counted(running, sent=1, refused=len(addresses) - 1)
    assert [one["To"] for one in smtp.mailboxes.messages] == [ANN]
    assert [email for _, email, _ in audited(site, running)] == [ANN]
    assert site.sql("SELECT requested_by FROM sign_ins") == [("email",)]


def test_a_mailbox_gets_a_few_messages_and_an_address_asks_a_few_times(running: Running, smtp: SmtpProcess) -> None:
    of_office = [{"X-Forwarded-For": f"192.0.2.{number}"} for number in range(1, 4)]
    for number in range(emailed.MOST_OF_MAILBOX + 3):
        address = f"ann+{number}@acme.com" if number % 2 else ANN
        assert asked(running, address, **of_office[number % 2]).status_code == 200
    counted(running, sent=emailed.MOST_OF_MAILBOX, limited=3)
    assert len(smtp.mailboxes.messages) == emailed.MOST_OF_MAILBOX
    statuses = [asked(running, EVE, **of_office[2]).status_code for _ in range(emailed.MOST_OF_ORIGIN + 2)]
    assert statuses == [200] * emailed.MOST_OF_ORIGIN + [429] * 2
    assert asked(running, "bob@acme.com", **of_office[0]).status_code == 200  # of another address


def test_a_link_that_is_used_does_not_count_for_its_address(running: Running, smtp: SmtpProcess) -> None:
    """A whole office may sign in within an hour."""
    office = {"X-Forwarded-For": "192.0.2.1"}
    assert asked(running, ANN, **office).status_code == 200
    (message,) = smtp.mailboxes.wait(1)
    for _ in range(emailed.MOST_OF_ORIGIN - 1):
        assert asked(running, EVE, **office).status_code == 200
    assert asked(running, ANN, **office).status_code == 429
    token = token_in(message)
    assert [pressed(running, token, **office).status_code for _ in range(2)] == [303, 403]
    assert [asked(running, ANN, **office).status_code for _ in range(2)] == [200, 429]


def test_a_link_is_worth_nothing_to_someone_who_has_left(site: Site, smtp: SmtpProcess) -> None:
    with_mail(site, f"smtp://127.0.0.1:{smtp.port}")
    with site.running(port=site.settings.http_port) as running:
        for address in (ANN, "bob@acme.com"):
            assert asked(running, address).status_code == 200
        tokens = {message["To"]: token_in(message) for message in smtp.mailboxes.wait(2)}
        site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
        assert "This account is deactivated." in pressed(running, tokens[ANN]).text
        assert pressed(running, tokens["bob@acme.com"]).status_code == 303
        assert running.http.get("/me").status_code == 200
        assert asked(running, "carl@acme.com").status_code == 200
        late = token_in(smtp.mailboxes.wait(3)[2])
    site.settings = site.settings.model_copy(update={"sign_in_domains": ()})
    with site.running(port=site.settings.http_port) as running:
        refused = pressed(running, late)
        assert (refused.status_code, "Links by email do not sign you in here." in refused.text) == (403, True)
        assert asked(running, ANN).status_code == 404
        assert 'action="/sign-in/email"' not in running.http.get("/sign-in").text
    assert site.sql("SELECT email FROM sessions") == [("bob@acme.com",)]


def test_pages_of_other_sites_ask_for_nothing(running: Running, smtp: SmtpProcess) -> None:
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert asked(running, ANN, **foreign).status_code == 403
    elsewhere = asked(running, ANN, "https://evil.example/")
    assert elsewhere.status_code == 200
    assert pressed(running, token_in(smtp.mailboxes.wait(1)[0])).headers["location"] == "/"


def test_more_than_fits_is_dropped_and_counted(site: Site, smtp: SmtpProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emailed, "MOST_WAITING", 2)
    monkeypatch.setattr(emailed, "PAUSE_SECONDS", 3600)
    with_mail(site, f"smtp://127.0.0.1:{smtp.port}")
    with site.running(port=site.settings.http_port) as running:
        for _ in range(emailed.AT_A_TIME + 2 + 3):
            assert asked(running, ANN).status_code == 200
        counted(running, dropped=3)


LACKS = "lacks something that is needed, such as STARTTLS or a way to sign in."
FAULTS = {
    "nothing listens": ("smtp://127.0.0.1:9", "127.0.0.1:9 cannot be reached (ConnectionRefusedError)."),
    "no STARTTLS": ("smtp://u:canary@0.0.0.0:{port}", f"0.0.0.0:{{port}} {LACKS}"),
    "no TLS": ("smtps://127.0.0.1:{port}", "127.0.0.1:{port} has no TLS, or no valid certificate."),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_operators_are_told_once_that_no_link_can_be_sent(
    site: Site, smtp: SmtpProcess, webhook: Webhook, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    url, said = (text.format(port=smtp.port) for text in FAULTS[fault])
    with_mail(site, url, alert_webhook_url=SecretStr(webhook.url))
    with site.running(port=site.settings.http_port) as running:
        for number in range(3):
            assert asked(running, f"person{number}@acme.com").status_code == 200
        counted(running, failed=3)
    assert webhook.accepted == [f"{LOGGED}{said}"]
    logged = "".join(capfd.readouterr())
    assert not re.search("person\\d|canary", logged + str(webhook.received))
    assert smtp.mailboxes.messages == []


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_wrong_password_is_named_and_not_shown(site: Site, webhook: Webhook) -> None:
    with running_smtp(password=True) as server:
        with_mail(site, f"smtp://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}")
        (good,) = doctor.email(doctor.Installation(site.settings, running=True))
        assert (good.ok, good.detail) == (True, f"127.0.0.1:{server.port} would accept a message")
        with_mail(site, f"smtp://{USER}:canary@127.0.0.1:{server.port}", alert_webhook_url=SecretStr(webhook.url))
        (bad,) = doctor.email(doctor.Installation(site.settings, running=True))
        assert (bad.ok, "refuses the user and password" in bad.detail, "canary" in bad.detail) == (False, True, False)
        with site.running(port=site.settings.http_port) as running:
            asked(running, ANN)
            counted(running, failed=1)
        where = f"127.0.0.1:{server.port}"
        assert server.mailboxes.passwords[-1] == b"canary"
        assert server.mailboxes.messages == []
    assert webhook.accepted == [f"{LOGGED}{where} refuses the user and password of CONCORDANCE_SMTP_URL (status 535)."]


def test_a_server_that_hangs_has_a_deadline(
    site: Site, smtp: SmtpProcess, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "DEADLINE_SECONDS", 1.0)
    smtp.mailboxes.hangs = True
    with_mail(site, f"smtp://127.0.0.1:{smtp.port}", alert_webhook_url=SecretStr(webhook.url))
    with site.running(port=site.settings.http_port) as running:
        asked(running, ANN)
        counted(running, failed=1)
    assert webhook.accepted == [f"{LOGGED}127.0.0.1:{smtp.port} did not answer within 1 seconds."]


def test_a_mailbox_that_does_not_exist_is_no_alert(site: Site, smtp: SmtpProcess, webhook: Webhook) -> None:
    smtp.mailboxes.recipient = "550 <ann@acme.com> unknown"
    with_mail(site, f"smtp://127.0.0.1:{smtp.port}", alert_webhook_url=SecretStr(webhook.url))
    with site.running(port=site.settings.http_port) as running:
        asked(running, ANN)
        counted(running, undeliverable=1)
    assert webhook.accepted == []


@pytest.mark.parametrize("trusted", [True, False])
def test_with_starttls_the_certificate_is_checked_before_the_password_is_sent(
    site: Site, tmp_path: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    http_clients.tls.cache_clear()
    try:
        with running_smtp(password=True, tls=offered_tls(file)) as server:
            with_mail(site, f"smtp://{USER}:{quote(PASSWORD, safe='')}@0.0.0.0:{server.port}")
            with site.running(port=site.settings.http_port) as running:
                asked(running, ANN)
                counted(running, **{"sent" if trusted else "failed": 1})
            assert server.mailboxes.encrypted == ([True] if trusted else [])
            assert server.mailboxes.passwords == ([PASSWORD.encode()] if trusted else [])
    finally:
        http_clients.tls.cache_clear()
