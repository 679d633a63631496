"""An operator's and an administrator's work in a real browser: approve deletions, sync, set Slack up, revoke a key."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.core.domain import SourceName
from resources.servers.processes import free_port
from resources.settings import Settings
from resources.stores.postgres import session
from serving.identity import api_keys
from tests.fixtures.axe import violations
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.drive import DriveSite, service_account_file
from tests.fixtures.feedback import rated
from tests.fixtures.serving import Running, Site
from tests.fixtures.slack import SlackSite

OPERATOR, ADMIN = "olga@acme.com", "root@acme.com"
CHANNEL = "<script>alert(1)</script>a-channel-with-a-name-of-more-than-sixty-characters-and-no-blank"
PAGES = {
    "/sources": OPERATOR,
    "/sources/slack/set-up": OPERATOR,
    "/sources/google_drive/set-up": OPERATOR,
    "/admin": ADMIN,
    "/admin/keys": ADMIN,
    "/admin/sessions": ADMIN,
    "/admin/agents": ADMIN,
    "/admin/policies": ADMIN,
    "/admin/usage": OPERATOR,
    "/admin/questions": ADMIN,
    "/admin/feedback": ADMIN,
    "/admin/take-downs": ADMIN,
}


@pytest.fixture
def running(site: Site, slack_site: SlackSite, drive_site: DriveSite) -> Iterator[Running]:
    """Files from a root of which most are gone, with a sync in progress."""
    holders = json.dumps({"operator": [OPERATOR], "administrator": [ADMIN]})
    roles = Settings(_env_file=None, roles=holders).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    addresses = {"slack_api_url": slack_site.url, "drive_api_url": drive_site.url, "public_url": None}
    port = free_port()
    changes = {"roles": roles, "http_port": port, **addresses}
    site.settings = site.settings.model_copy(update=changes)
    for number in range(8):
        site.add(f"{number} {CHANNEL}", ["A plan."], [OPERATOR])
    site.sql("UPDATE partitions SET title = %s, source_count = 9", CHANNEL)
    site.sql(
        "INSERT INTO held_deletions (source, partition, source_id) SELECT source, partition, source_id FROM documents"
    )
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, stage, documents, done, passages)"
        " VALUES ('files', 'running', now() - interval '1 min', 'indexed', 100, 40, 90)"
    )
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, completed_at, synced)"
        " SELECT 'files', 'success', at, at, 7"
        " FROM generate_series(now() - interval '9 days', now() - interval '10 min', interval '20 min') AS s (at)"
    )
    for rule, subject, severity in (("SyncsFailInARow", "slack", "critical"), ("DiskFilling", "", "warning")):
        site.sql(
            "INSERT INTO alerts (rule, subject, severity, value, hold_seconds, fired_at, seen_at)"
            " VALUES (%s, %s, %s, 3, 0, now(), now() + interval '1 hour')",
            rule, subject, severity,
        )  # fmt: skip
    rated(site, OPERATOR, CHANNEL)
    owner = json.dumps({"owner": CHANNEL})
    site.sql(
        "INSERT INTO audit_log (email, action, doc_ids, detail) VALUES (%s, 'take_down', ARRAY[gen_random_uuid()], %s)",
        ADMIN,
        owner,
    )
    with session(site.settings.postgres_dsn) as connection:
        api_keys.create(connection, "bot@acme.com", ["group:ops@acme.com"])
    site.agent(OPERATOR, CHANNEL)
    with site.running(port=port) as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with running_browser(tmp_path / "profile") as browser:
        yield browser


def press(browser: Browser, selector: str) -> None:
    """Click without leaving the page."""
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def until(browser: Browser, expression: str) -> None:
    browser.wait(lambda page: page.evaluate(f"!!({expression})"), expression)


def clean(browser: Browser, running: Running) -> None:
    """Fail if the console showed an error, or another host was asked for something."""
    assert browser.complaints == []
    assert {one for one in browser.requested if not one.startswith((running.url, "data:", "about:"))} == set()


def test_every_page_fits_a_phone_and_is_accessible(running: Running, browser: Browser, site: Site, axe: str) -> None:
    broken: dict[str, list[str]] = {}
    for path, who in PAGES.items():
        browser.forget()
        browser.signed_in(running.url, site.session(who))
        for width, dark in ((1280, False), (390, True)):
            browser.look(width=width, dark=dark)
            browser.goto(running.url + path)
            browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert browser.fits(width), (path, width)
            if found := violations(browser, axe):
                broken[f"{path}, {width}"] = found
    assert not broken, json.dumps(broken, indent=1)
    clean(browser, running)


def test_no_word_of_the_audit_log_is_broken(running: Running, browser: Browser, site: Site) -> None:
    site.sql("INSERT INTO audit_log (email, action) VALUES ('alexandra.montgomery@acme.com', 'held_deletions_decided')")
    browser.signed_in(running.url, site.session(ADMIN))
    for width in (641, 760, 900):
        browser.look(width=width)
        browser.goto(f"{running.url}/admin")
        lines = "[...document.querySelectorAll('td.when ~ td > a, summary')].map((one) => one.getClientRects().length)"
        assert set(browser.evaluate(lines)) == {1}, width
        assert browser.fits(width)


def test_every_link_of_the_navigation_is_in_sight(running: Running, browser: Browser, site: Site) -> None:
    browser.signed_in(running.url, site.session(ADMIN))
    for width in (1280, 800, 660):  # the latter two are half a screen, or a page that is magnified
        browser.look(width=width)
        browser.goto(f"{running.url}/sources")
        ends = browser.evaluate(
            "[...document.querySelectorAll('.bar nav, .bar nav a')].map((one) => one.getBoundingClientRect().right)"
        )
        assert len(ends) > 4
        assert max(ends[1:]) <= ends[0], width
        assert browser.fits(width)


def test_an_operator_decides_on_deletions_and_follows_a_sync(running: Running, browser: Browser, site: Site) -> None:
    browser.look()
    browser.signed_in(running.url, site.session(OPERATOR))
    browser.goto(f"{running.url}/sources")
    assert "40 of 100 documents" in browser.text
    assert browser.evaluate("document.querySelector('[data-sync=files]').disabled")
    press(browser, "[data-decide=approve]")
    assert CHANNEL in browser.evaluate("document.querySelector('dialog h2').textContent")
    assert browser.evaluate("document.activeElement.textContent") == "Cancel"
    press(browser, "dialog .quiet")
    until(browser, "!document.querySelector('dialog')")
    assert site.launcher.calls == []
    site.sql("UPDATE held_deletions SET held_at = now() WHERE source_id = (SELECT max(source_id) FROM held_deletions)")
    press(browser, "[data-decide=approve]")
    press(browser, "dialog .danger")
    until(browser, "document.getElementById('status').textContent.includes('has started')")
    assert "1 more" in browser.evaluate("document.getElementById('status').textContent")
    assert site.sql("SELECT count(*) FROM held_deletions WHERE approved_by = %s", OPERATOR) == [(7,)]
    until(browser, "document.querySelector('[data-decide=approve]')?.dataset.count === '1'")
    site.sql("UPDATE sync_jobs SET status = 'success', completed_at = now(), synced = 100")
    until(browser, "!document.querySelector('[data-running]')")
    press(browser, "[data-sync=files]")
    until(browser, "document.querySelector('[data-sync=files]').textContent === 'Sync now'")
    assert len(site.launcher.calls) == 2
    clean(browser, running)


def test_a_source_is_followed_again_after_a_failure(running: Running, browser: Browser, site: Site) -> None:
    def connected(there: bool) -> None:
        rate = -1 if there else 0
        browser.call(
            "Network.emulateNetworkConditions",
            offline=not there, latency=0, downloadThroughput=rate, uploadThroughput=rate,
        )  # fmt: skip

    browser.look()
    browser.signed_in(running.url, site.session(OPERATOR))
    browser.goto(f"{running.url}/sources")
    counted = (
        "window.looks = 0; window.whole ??= window.fetch;"
        "window.fetch = (url, options) => whole(url, options).then(found => (window.looks += String(url) === '/sources/files', found))"
    )
    one = "document.querySelector('[data-sync=files]')"
    press_thrice = f"for (const _ of [1, 2, 3]) {{ {one}.disabled = false; {one}.click(); }}"
    for action in ("1", press_thrice):
        connected(False)
        browser.evaluate(f"{counted}; {action}")
        until(browser, "document.getElementById('status').textContent.includes('cannot be reached')")
        site.sql("UPDATE sync_jobs SET status = 'success', completed_at = now(), synced = 100")
        connected(True)
        until(browser, "document.getElementById('status').hidden && !document.querySelector('[data-running]')")
        assert not browser.evaluate("document.querySelector('[data-sync=files]').disabled")
        assert browser.evaluate("window.looks") == 1
    browser.complaints[:] = [one for one in browser.complaints if "ERR_INTERNET_DISCONNECTED" not in one]
    clean(browser, running)


def test_an_operator_checks_slack_from_nothing(
    running: Running, browser: Browser, site: Site, slack_site: SlackSite
) -> None:
    slack_site.workspace.channel("general")
    slack_site.workspace.channel("plans", bot=False)
    browser.look()
    browser.signed_in(running.url, site.session(OPERATOR))
    browser.goto(f"{running.url}/sources")
    browser.click("a[href='/sources/slack/set-up']")
    browser.fill("#slack_bot_token", "xoxb-wrong")
    press(browser, ".check button")
    until(browser, "document.querySelector('.outcome [role=alert]')")
    browser.fill("#slack_bot_token", slack_site.workspace.token)
    press(browser, ".check button")
    until(browser, "document.querySelector('.outcome pre')")
    until(browser, "document.querySelector('#channel-name')")
    browser.evaluate("document.querySelector('#channel-name').value = 'plan'")
    browser.evaluate("document.querySelector('#channel-name').dispatchEvent(new Event('input'))")
    said = browser.evaluate("document.querySelector('.outcome').innerText")
    assert "invite it #plans" in said
    assert "1 of 2 channels" in said
    assert "/invite @" in said
    assert "CONCORDANCE_SLACK_BOT_TOKEN=<the Bot User OAuth Token>" in said
    assert slack_site.workspace.token not in said
    clean(browser, running)


def test_an_operator_chooses_folders_of_drive(
    running: Running, browser: Browser, site: Site, drive_site: DriveSite, tmp_path: Path, axe: str
) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {drive.account: "organizer"})
    plans = drive.folder(CHANNEL, team)
    drafts = drive.folder("Drafts", plans)
    drive.file("Plan.txt", plans, "The plan.")
    drive.file("Other.txt", team, "Other.")
    browser.look(width=390)
    browser.signed_in(running.url, site.session(OPERATOR))
    browser.goto(f"{running.url}/sources/google_drive/set-up")
    key = service_account_file(tmp_path, "https://elsewhere.example").read_text()
    browser.fill("#google_service_account_key", key)
    press(browser, ".check button")
    until(browser, f"document.querySelector('.tree input[value=\"{team}\"]')")
    assert "2 files" in browser.text
    assert "DRIVE_ROOTS=" not in browser.evaluate("document.querySelector('.outcome pre').innerText")
    opened = f"document.querySelector('.tree input[value=\"{team}\"]').nextSibling.open = true"
    browser.evaluate(opened)
    until(browser, f"document.querySelector('.tree input[value=\"{plans}\"]')")
    browser.evaluate(f"document.querySelector('.tree input[value=\"{plans}\"]').nextSibling.open = true")
    until(browser, f"document.querySelector('.tree input[value=\"{drafts}\"]')")
    press(browser, f".tree input[value='{drafts}']")
    press(browser, f".tree input[value='{plans}']")
    assert browser.evaluate(f"document.querySelector('.tree input[value=\"{drafts}\"]').disabled")
    lines = browser.evaluate("document.querySelector('.outcome pre').innerText")
    assert lines.splitlines() == [
        "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE=</path/to/key.json>",
        f"CONCORDANCE_DRIVE_ROOTS={plans}",
    ]
    browser.evaluate(
        "[...document.querySelectorAll('.outcome button')].find((one) => one.textContent.startsWith('Estimate')).click()"
    )
    until(browser, "document.querySelector('.outcome').innerText.includes('1 file,')")
    assert violations(browser, axe) == []
    assert browser.fits(390)
    press(browser, ".chip button")
    assert "DRIVE_ROOTS=" not in browser.evaluate("document.querySelector('.outcome pre').innerText")
    assert "private_key" not in browser.url
    clean(browser, running)


def test_an_administrator_connects_slack_and_forgets_it(
    running: Running, browser: Browser, site: Site, slack_site: SlackSite, axe: str
) -> None:
    slack_site.workspace.channel("general")
    browser.look(width=390)
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/sources/slack/set-up")
    browser.fill("#slack_bot_token", slack_site.workspace.token)
    press(browser, ".check button")
    until(browser, "document.querySelector('[data-saves]')")
    assert violations(browser, axe) == []
    press(browser, "[data-saves]")
    until(browser, "document.querySelector('[data-sync=slack]')")
    assert [call["source"] for call in site.launcher.calls] == ["slack"]
    browser.goto(f"{running.url}/sources/slack/set-up")
    assert "an administrator saved here" in browser.text
    assert violations(browser, axe) == []
    press(browser, "[data-forget]")
    press(browser, "dialog .danger")
    until(browser, "!document.querySelector('[data-forget]')")
    assert site.sql("SELECT count(*) FROM source_settings") == [(0,)]
    clean(browser, running)


def test_an_administrator_connects_drive_for_a_person_and_narrows_it(
    running: Running, browser: Browser, site: Site, drive_site: DriveSite
) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {drive.account: "organizer"})
    browser.look()
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/sources/google_drive/set-up")
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.fill("#google_client_id", "client.apps.googleusercontent.com")
    browser.fill("#google_client_secret", "secret")
    press(browser, "form:has(#google_client_id) button")
    until(browser, "document.querySelector('[data-saves]')")
    press(browser, "[data-saves]")
    until(browser, "document.body.textContent.includes('Google Drive is connected')")
    browser.click("a[href='/sources/google_drive/set-up']")
    press(browser, "form[data-roots] button")
    until(browser, "document.querySelector('form[data-roots] .tree input[value=shared_drives]')")
    browser.evaluate(
        "document.querySelector('form[data-roots] .tree input[value=shared_drives]').nextSibling.open = true"
    )
    until(browser, f"document.querySelector('.tree input[value=\"{team}\"]')")
    press(browser, f".tree input[value='{team}']")
    press(browser, "form[data-roots] [data-saves]")
    until(browser, "document.querySelector('[data-sync=google_drive]')")
    assert [call["source"] for call in site.launcher.calls] == ["google_drive"]
    assert site.sql("SELECT name, value FROM source_settings WHERE value IS NOT NULL ORDER BY name") == [
        ("drive_roots", team),
        ("google_client_id", "client.apps.googleusercontent.com"),
    ]


def test_an_administrator_revokes_a_key(running: Running, browser: Browser, site: Site) -> None:
    browser.look()
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/admin/keys")
    press(browser, "[data-delete]")
    press(browser, "dialog .danger")
    until(browser, "document.querySelector('tr.over')")
    assert site.sql("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL") == [(0,)]
    clean(browser, running)


def test_an_upload_is_taken_down_by_its_address(running: Running, browser: Browser, site: Site) -> None:
    sent = {"file": ("gossip.md", b"Gossip.", "text/markdown")}
    document = running.request("POST", "/api/upload", "ann@acme.com", files=sent).json()["doc_id"]
    browser.look()
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/admin/take-downs")
    for given, said in (
        ("no address", "neither"),
        (str(uuid.uuid4()), "No upload"),
        (document, "hidden from all searches"),
    ):
        browser.fill("#document", given if said == "neither" else f"{running.url}/documents/{given}?start=3")
        press(browser, "#take-down button")
        if said != "neither":
            until(browser, "document.querySelector('dialog')")
            press(browser, "dialog .danger")
        until(browser, f"document.getElementById('status').textContent.includes('{said}')")
    assert site.sql("SELECT taken_down_at IS NOT NULL FROM uploads WHERE doc_id = %s", document) == [(True,)]


def test_an_upload_of_another_person_is_taken_down_on_its_page(running: Running, browser: Browser, site: Site) -> None:
    sent = {"file": ("gossip.md", b"Gossip.", "text/markdown")}
    more = {"metadata": json.dumps({"share": [ADMIN]})}
    document = running.request("POST", "/api/upload", "ann@acme.com", files=sent, data=more).json()["doc_id"]
    ((source_id,),) = site.sql("SELECT source_id FROM uploads")
    site.add("Gossip", ["Gossip."], [ADMIN], source=SourceName.UPLOAD, source_id=source_id, owner="ann@acme.com")
    browser.look()
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/documents/{document}")
    assert browser.evaluate("document.querySelector('#delete').textContent") == "Take down"
    press(browser, "#delete")
    until(browser, "document.querySelector('dialog')")
    assert "The same content cannot be handed in again." in browser.text
    browser.click("dialog .danger")
    assert site.sql("SELECT taken_down_at IS NOT NULL FROM uploads WHERE doc_id = %s", document) == [(True,)]
    assert browser.url.endswith("/admin/take-downs")


def test_a_question_is_proposed_from_feedback(running: Running, browser: Browser, site: Site) -> None:
    document = site.add("Plans", ["The plan."], [OPERATOR, ADMIN])
    browser.look()
    browser.signed_in(running.url, site.session(ADMIN))
    browser.goto(f"{running.url}/admin/feedback")
    browser.fill("[name=document]", f"{running.url}/documents/{document}")
    press(browser, "[data-feedback] button")
    until(browser, "document.getElementById('status').textContent.includes('is proposed')")
    assert site.sql("SELECT question, doc_ids::text[] FROM questions") == [(CHANNEL, [document])]
    clean(browser, running)
