"""The pages of documents, uploads and one's account in a real browser: the flows of a person, without an error in the console."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from resources.core.domain import SourceName
from resources.servers.processes import free_port
from tests.fixtures.axe import violations
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.pictures import saved
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
TEXT = "The lantern of the old lighthouse is lit at dusk. The keeper counts ships until midnight."


class Desk(NamedTuple):
    """Ann's browser, signed in."""

    site: Site
    running: Running
    browser: Browser

    def open(self, path: str) -> None:
        self.browser.goto(self.running.url + path)

    def until(self, condition: str, what: str) -> None:
        self.browser.wait(lambda one: one.evaluate(f"!!({condition})"), what)

    def type(self, selector: str, text: str) -> None:
        self.browser.evaluate(f"document.querySelector('{selector}').focus()")
        self.browser.type(text)

    def check(self, axe: str) -> None:
        """Fail unless the page is accessible, in light and dark, on a desktop and a phone."""
        for width, dark in ((1280, False), (390, True)):
            self.browser.look(width=width, dark=dark)
            assert violations(self.browser, axe) == []
            assert self.browser.fits(width)

    def press(self, selector: str) -> None:
        self.browser.evaluate(f"document.querySelector('{selector}').click()")


class Indexer:
    """Stands in for a sync of uploads: what it is asked to sync can be found at once."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __call__(self, *_settings: Any, **_wanted: Any) -> SimpleNamespace:
        for source_id, title, owner, permissions in self._site.sql(
            "SELECT source_id, title, owner, permissions FROM uploads WHERE doc_id NOT IN (SELECT doc_id FROM documents)"
        ):
            self._site.add(
                title, [TEXT], permissions, source=SourceName.UPLOAD, source_id=source_id, owner=owner, author=owner
            )
        self._site.sql("UPDATE index_entries SET indexed_at = now()")
        return SimpleNamespace(job_id="00000000-0000-4000-8000-000000000001", started_at=None)


@pytest.fixture
def desk(site: Site, tmp_path: Path) -> Iterator[Desk]:
    port = free_port()
    site.settings = site.settings.model_copy(update={"public_url": None, "http_port": port})
    site.launcher = Indexer(site)  # type: ignore[assignment]
    for email, name in ((ANN, "Ann Archer"), (BOB, "Bob Bell")):
        site.sql("INSERT INTO people (source, email, name) VALUES ('scim', %s, %s)", email, name)
    with site.running(port=port) as running, running_browser(tmp_path / "profile") as browser:
        name, _, value = site.session(ANN)["Cookie"].partition("=")
        browser.call("Network.setCookie", name=name, value=value, url=running.url)
        yield Desk(site, running, browser)
        assert browser.complaints == []
        assert {urlsplit(one).netloc for one in browser.requested} - {""} == {urlsplit(running.url).netloc}


def test_files_are_uploaded_shared_found_and_deleted(desk: Desk, axe: str, tmp_path: Path) -> None:
    files = [tmp_path / "keeper.md", tmp_path / "<img src=x onerror=alert(1)>.md", tmp_path / "photo.xyz"]
    for file in files:
        file.write_text(f"{TEXT} {file.name}")
    desk.open("/upload")
    desk.browser.attach("#files", *files[:2])
    desk.until("document.querySelectorAll('#queue li').length === 2", "two files")
    desk.type("#share", "bo")
    desk.until("document.querySelector('[role=option]')?.textContent.includes('Bob Bell')", "a suggestion")
    desk.check(axe)
    desk.browser.press("ArrowDown")
    desk.browser.press("Enter")
    desk.until("document.querySelector('.chips .chip')?.textContent.startsWith('Bob Bell')", "a choice")
    desk.type(
        "#tags",
        'topic: lights\nyear: 2025\nversion: 1.10\nticket: 12345678901234567\nopen\nsizes: [1.10, 2]\nrooms: [1, "1.10"]',
    )
    desk.press("#send")
    desk.until("document.querySelectorAll('#queue a[href^=\"/documents/\"]').length === 2", "both can be found")
    assert "Searchable in" in desk.browser.text
    assert desk.site.sql("SELECT DISTINCT permissions, tags FROM uploads") == [
        (
            [ANN, BOB],
            {
                "topic": "lights",
                "year": 2025,
                "version": "1.10",
                "ticket": "12345678901234567",
                "open": True,
                "sizes": "[1.10, 2]",
                "rooms": [1, "1.10"],
            },
        )
    ]
    desk.until("document.querySelectorAll('#mine li').length === 2", "the list of uploads")
    desk.press("#mine button")
    title = desk.browser.evaluate("document.querySelector('#mine li a').textContent")
    assert f"Delete “{title}” for good?" in desk.browser.text
    desk.press("dialog .danger")
    desk.until("document.querySelectorAll('#mine li').length === 1", "one of them is deleted")


def test_fields_are_for_one_upload_and_a_file_that_is_known_says_that_they_are_replaced(
    desk: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "keeper.md"
    file.write_text(TEXT)
    desk.open("/upload")
    for number, share in enumerate((BOB, None)):
        desk.browser.attach("#files", file)
        desk.until("!document.querySelector('#choices').hidden", "a file")
        if share:
            desk.browser.fill("#title", "Lights")
            desk.browser.fill("#tags", "topic: lights")
            desk.type("#share", share)
            desk.browser.press("Enter")
        desk.press("#send")
        desk.until(
            f"document.querySelectorAll('#queue a[href^=\"/documents/\"]').length === {number + 1}", "it can be found"
        )
        said = desk.browser.evaluate("document.querySelector('#queue li:last-child').textContent")
        assert ("uploaded this file before" in said) == (number == 1)
        desk.until("document.querySelectorAll('#mine li').length === 1", "the list of uploads")
        fields = "[...document.querySelectorAll('#title, #tags, #share')].map(one => one.value)"
        assert desk.browser.evaluate(fields) == ["", "", ""]
        assert not desk.browser.evaluate("!!document.querySelector('.chips .chip')")
    assert desk.site.sql("SELECT permissions, tags FROM uploads") == [([ANN], {})]


def test_files_are_kept_when_the_session_is_over(desk: Desk, tmp_path: Path) -> None:
    files = [tmp_path / "keeper.md", tmp_path / "lamp.md"]
    for file in files:
        file.write_text(f"{TEXT} {file.name}")
    desk.open("/upload")
    desk.browser.attach("#files", *files)
    desk.until("document.querySelectorAll('#queue li').length === 2", "two files")
    desk.site.sql("DELETE FROM sessions")
    desk.press("#send")
    desk.until("document.querySelectorAll('#queue .remove').length === 2", "both are offered again")
    desk.until("document.querySelector('#said a[target=_blank]')", "a link to sign in")
    assert "Your session is over" in desk.browser.evaluate("document.querySelector('#said').textContent")
    desk.browser.signed_in(desk.running.url, desk.site.session(ANN))
    desk.press("#send")
    desk.until("document.querySelectorAll('#queue a[href^=\"/documents/\"]').length === 2", "both can be found")
    assert desk.browser.evaluate("document.querySelector('#said').textContent") == ""
    assert all("401" in one for one in desk.browser.complaints)
    desk.browser.complaints.clear()


def test_a_file_that_is_refused_says_why_and_the_next_goes_on(desk: Desk, tmp_path: Path) -> None:
    files = [tmp_path / "photo.xyz", tmp_path / "keeper.md"]
    for file in files:
        file.write_text(TEXT)
    desk.open("/upload")
    desk.browser.attach("#files", *files)
    desk.until("document.querySelectorAll('#queue li').length === 2", "two files")
    desk.press("#send")
    desk.until("document.querySelectorAll('#queue a[href^=\"/documents/\"]').length === 1", "one can be found")
    alert = desk.browser.evaluate("document.querySelector('#queue [role=alert]').textContent")
    assert alert == "Files of type .xyz are not supported."
    [refused] = desk.browser.complaints  # the browser itself shows a response that is an error
    assert "415" in refused
    desk.browser.complaints.clear()


def test_fields_are_checked_first_and_files_kept_after_a_refusal(desk: Desk, axe: str, tmp_path: Path) -> None:
    file = tmp_path / "keeper.md"
    file.write_text(TEXT)
    desk.open("/upload")
    desk.browser.attach("#files", file)
    desk.until("!document.querySelector('#choices').hidden", "a file")
    place = "document.querySelector('#send').getBoundingClientRect().top + scrollY"
    before = desk.browser.evaluate(place)
    desk.browser.evaluate("document.querySelector('#share').focus()")
    desk.until("!document.querySelector('.suggestions').hidden", "suggestions")
    assert desk.browser.evaluate(place) == before  # they float
    desk.browser.fill("#share", "bob")
    desk.browser.fill("#tags", ": lights")
    desk.press("#send")
    faults = "[...document.querySelectorAll('.field [role=alert]')].map(one => one.textContent)"
    assert [one.partition(".")[0] for one in desk.browser.evaluate(faults)] == [
        "Write a name before the colon: topic: kitchen",
        "“bob” is no address",
    ]
    assert desk.browser.evaluate("document.activeElement.id") == "tags"
    desk.check(axe)
    desk.browser.fill("#tags", "topic: lights")
    desk.browser.fill("#share", "eve@other.com")
    desk.press("#send")
    desk.until("document.querySelector('#queue [role=alert]')?.textContent.includes('outside of your domain')", "why")
    assert desk.browser.evaluate("document.querySelector('#tags').value") == "topic: lights"
    desk.browser.fill("#share", BOB)
    desk.browser.evaluate("document.querySelector('#tags').focus()")
    assert desk.browser.evaluate("document.querySelector('#share').value") == BOB  # typed, and no chip moves the button
    desk.press("#send")
    desk.until("document.querySelectorAll('#queue a[href^=\"/documents/\"]').length === 1", "it can be found")
    assert desk.site.sql("SELECT permissions, tags FROM uploads") == [([ANN, BOB], {"topic": "lights"})]
    [refused] = desk.browser.complaints
    assert "403" in refused
    desk.browser.complaints.clear()


def test_a_document_is_asked_about_whole_and_by_what_is_selected(desk: Desk, axe: str) -> None:
    texts = [f"Chapter {number}\n\n{TEXT} It is number {number}." for number in range(3)]
    doc_id = desk.site.add("Keeper", texts, [ANN], places=[{"section_path": [f"Chapter {n}"]} for n in range(3)])
    desk.site.add("Rival", ["The lantern of the new lighthouse is lit at noon."], [ANN])
    desk.browser.look(width=1280)
    desk.open(f"/documents/{doc_id}?chunk=2")
    assert desk.browser.evaluate("document.querySelector('.outline').open")
    assert desk.browser.evaluate("document.activeElement === document.body")
    desk.type("#q", "When is the lantern lit?")
    desk.browser.press("Enter")
    desk.until("document.querySelector('.sources li')", "an answer")
    assert "Rival" not in desk.browser.evaluate("document.querySelector('#answer').textContent")
    desk.press(".sources button")
    assert "Keeper" in desk.browser.evaluate("document.querySelector('#passage h2').textContent")
    desk.browser.press("Escape")
    assert desk.browser.evaluate("document.querySelector('#passage').hidden")
    desk.browser.evaluate("getSelection().selectAllChildren(document.querySelector('.document p:last-of-type'))")
    desk.until("!document.querySelector('#ask-selection').hidden", "the offer to ask about what is selected")
    desk.press("#ask-selection")
    assert "About: “The lantern of the old" in desk.browser.text
    desk.press("#ask button:last-child")
    desk.until("document.querySelector('.answer .actions')", "an answer about the selection")
    desk.browser.evaluate("location.hash = 'main'")
    desk.until("history.state?.answers?.length === 1", "the answer belongs to the section, too")
    desk.browser.evaluate("location.reload()")
    desk.until("[...document.querySelectorAll('.actions button')].at(-1)?.textContent === 'Ask again'", "it comes back")
    assert "About: “The lantern of the old" in desk.browser.text
    assert desk.browser.evaluate("history.state.quoted").startswith("The lantern of the old")
    desk.check(axe)


def test_initials_are_in_one_line_within_their_circle(desk: Desk) -> None:
    doc_id = desk.site.add("Tea", [TEXT], [ANN], owner="marta.wolf@acme.com")
    desk.open(f"/documents/{doc_id}")
    box = desk.browser.evaluate(
        "(() => { const one = document.querySelector('.facts .avatar'), box = one.getBoundingClientRect();"
        " const cut = [one.scrollWidth > one.clientWidth, one.scrollHeight > 1.5 * one.clientHeight];"
        " return [one.dataset.initials, box.width, box.height, ...cut]; })()"
    )
    assert box == ["MW", box[1], box[1], False, False]


def test_paper_shows_the_text_and_its_marks_without_controls(desk: Desk) -> None:
    doc_id = desk.site.add("Tea", [f"Chapter\n\n{TEXT}"], [ANN], places=[{"section_path": ["Chapter"]}])
    desk.open(f"/documents/{doc_id}?chunk=0")
    parts = ".bar, form.search, .outline, .reader .row, article, mark"
    shown = f"[...document.querySelectorAll('{parts}')].map((one) => [one.localName, one.checkVisibility()])"
    assert all(visible for _, visible in desk.browser.evaluate(shown))
    desk.browser.call("Emulation.setEmulatedMedia", media="print")
    assert {name for name, visible in desk.browser.evaluate(shown) if visible} == {"article", "mark"}
    assert desk.browser.evaluate("getComputedStyle(document.querySelector('mark')).printColorAdjust") == "exact"
    assert desk.browser.evaluate("getComputedStyle(document.querySelector('#passage')).position") == "static"


def test_paper_shows_what_was_searched_its_results_and_an_answer_without_controls(desk: Desk) -> None:
    desk.site.add("Manual", ["The lantern is boiled dry."], [ANN], url="https://intranet.example/manual.html")
    desk.open("/?q=lantern+type:markdown+source:files")
    desk.press("#ask")
    desk.until("document.querySelector('.answer .actions')", "an answer")
    parts = ".result h2 a[rel], .chip, .chip a, #q, #ask, .filters select, .answer .text, .cite, .answer .actions, .answer .quiet"
    seen = (
        f"[...document.querySelectorAll('{parts}')].filter((one) => one.checkVisibility())"
        ".map((one) => one.id || one.className || one.localName)"
    )
    assert {"ask", "actions", "quiet"} <= set(desk.browser.evaluate(seen))
    desk.browser.call("Emulation.setEmulatedMedia", media="print")
    assert set(desk.browser.evaluate(seen)) == {"q", "a", "chip", "text", "cite"}
    desk.running.settle()
    ((answer_id,),) = desk.site.sql("SELECT answer_id::text FROM answers")
    desk.open(f"/answers/{answer_id}")
    assert desk.browser.evaluate("document.querySelector('.sources').checkVisibility()")
    assert not desk.browser.evaluate("document.querySelector('#share').checkVisibility()")


def test_lists_and_tables_of_a_hebrew_document_begin_on_the_right(desk: Desk) -> None:
    doc_id = desk.site.add("ציוד", ["- מקלדת\n- עכבר\n\nפריט | מחיר\nמקלדת | 40"], [ANN])
    desk.open(f"/documents/{doc_id}")
    lefts = "[...document.querySelectorAll('article th')].map((one) => one.getBoundingClientRect().left)"
    first, second = desk.browser.evaluate(lefts)
    assert first > second
    styles = "[...document.querySelectorAll('article ul, article table')].map((one) => getComputedStyle(one).direction)"
    assert desk.browser.evaluate(styles) == ["rtl", "rtl"]


def test_the_outline_is_scrolled_to_the_open_section(desk: Desk) -> None:
    names = [f"Chapter {number}" for number in range(80)]
    places = [{"section_path": [name]} for name in names]
    doc_id = desk.site.add("Handbook", [f"{name}\n\n{TEXT}" for name in names], [ANN], places=places)
    desk.browser.look(width=1280)
    desk.open(f"/documents/{doc_id}?chunk=70#place")
    current = "document.querySelector('.outline a[aria-current]')"
    seen = (
        f"(() => {{ const one = {current}.getBoundingClientRect(), all = document.querySelector('.outline').getBoundingClientRect();"
        " return one.top >= all.top && one.bottom <= all.bottom; })()"
    )
    desk.until(seen, "the section is in sight")
    assert desk.browser.evaluate(f"{current}.textContent") == "Chapter 70"
    desk.press(".outline li:nth-child(73) a")
    assert desk.browser.evaluate(f"{current}.textContent") == "Chapter 72"


def test_a_wide_table_keeps_its_words_whole_and_scrolls(desk: Desk, axe: str) -> None:
    """On a phone, ten columns had a letter or two a line."""
    words = (
        "Article",
        "Description",
        "Supplier",
        "Delivery",
        "Stainless",
        "Instruments",
        "Responsible",
        "Ordered",
        "Country",
        "Notes",
    )
    rows = [" | ".join(words), *(" | ".join(f"{word} {row}" for word in words) for row in range(5))]
    doc_id = desk.site.add("Prices", ["\n".join(rows)], [ANN], mime_type="text/csv")
    desk.browser.look(width=390)
    desk.open(f"/documents/{doc_id}?chunk=0")
    saved(desk.browser, "wide-table")
    desk.browser.look(width=390)
    lines = "[...document.querySelectorAll('.document th')].map(one => one.firstChild.getClientRects().length)"
    assert desk.browser.evaluate(lines) == [1] * len(words)
    assert desk.browser.evaluate(
        "(one => one.scrollWidth > one.clientWidth)(document.querySelector('.document .wide'))"
    )
    desk.check(axe)


def test_an_owner_changes_and_deletes_an_upload_on_its_page(desk: Desk, axe: str) -> None:
    doc_id = desk.running.request(
        "POST", "/api/upload", ANN, files={"file": ("keeper.md", TEXT.encode())}, data={"tags": '{"year": "2025"}'}
    ).json()["doc_id"]
    desk.open(f"/documents/{doc_id}")
    assert desk.browser.evaluate("document.querySelector('#tags').value") == 'year: "2025"'
    desk.browser.fill("#title", "Lights")
    desk.press("#change summary")
    desk.check(axe)
    desk.type("#share", "domain:acme.com")
    desk.browser.press("Enter")
    desk.press("#changes > button")
    desk.until("document.querySelector('#said').textContent.startsWith('Changed')", "the change is stored")
    assert desk.site.sql("SELECT title, permissions, tags FROM uploads") == [
        ("Lights", [ANN, "domain:acme.com"], {"year": "2025"})
    ]
    desk.press("#delete")
    assert "Delete “keeper.md” for good?" in desk.browser.text
    desk.browser.click("dialog .danger")
    desk.until("location.pathname === '/upload'", "the list of uploads")
    assert desk.site.sql("SELECT count(*) FROM uploads WHERE deleted_at IS NULL") == [(0,)]


def test_a_change_sends_only_what_was_changed(desk: Desk) -> None:
    """A page that is older than another change does not undo it, and tags that nobody touched stay as they are."""
    tags = {
        "a": "1\n2",
        "empty": "",
        "x:y": "of",
        "id": 9007199254740993,
        "spaced": " a ",
        '"': "q",
        "list": ["b", 1],
        "ids": [9007199254740993],
    }
    sent = desk.running.request(
        "POST",
        "/api/upload",
        ANN,
        files={"file": ("keeper.md", TEXT.encode())},
        data={"metadata": json.dumps({"tags": tags, "share": [BOB]})},
    )
    doc_id = sent.json()["doc_id"]
    stored = "SELECT title, permissions, tags FROM uploads"
    desk.open(f"/documents/{doc_id}")
    changed = desk.running.request("PATCH", f"/api/documents/{doc_id}", ANN, json={"share": []})
    assert changed.json()["share"] == []
    desk.browser.fill("#title", "Lights")
    desk.press("#changes > button")
    desk.until("document.querySelector('#said').textContent.startsWith('Changed')", "the title is stored")
    assert desk.site.sql(stored) == [("Lights", [ANN], tags)]
    desk.browser.evaluate("document.querySelector('#tags').value += '\\nnew: one'")
    desk.press("#changes > button")
    desk.until("document.querySelector('#said').textContent.startsWith('Changed')", "the tags are stored")
    assert desk.site.sql(stored) == [("Lights", [ANN], tags | {"new": "one"})]


def test_other_sessions_and_agents_are_ended_on_the_account_page(desk: Desk, axe: str) -> None:
    for _ in range(3):
        desk.site.session(ANN)
    desk.site.agent(ANN, "Claude")
    desk.open("/me")
    desk.check(axe)
    session, agent = '[data-delete^="/api/sessions/"]', '[data-delete^="/api/agents/"]'
    desk.press(session)
    desk.press("dialog .danger")
    desk.until(f"document.querySelectorAll('{session}').length === 2", "one session is over")
    first = desk.browser.evaluate(f"document.querySelector('{session}').dataset.delete")
    assert desk.running.request("DELETE", first, ANN).status_code == 200, "signed out there meanwhile"
    desk.press("#others")
    desk.press("dialog .danger")
    desk.until(f"!document.querySelector('{session}')", "all others are over")
    assert ["404" in one for one in desk.browser.complaints] == [True]
    desk.browser.complaints.clear()
    assert desk.site.sql("SELECT count(*) FROM sessions WHERE email = %s", ANN) == [(1,)]
    desk.press(agent)
    desk.press("dialog .danger")
    desk.until(f"!document.querySelector('{agent}')", "the agent is disconnected")
    assert desk.site.sql("SELECT count(*) FROM agents") == [(0,)]
    desk.browser.click("form.account button")
    assert "You are signed out" in desk.browser.text


def test_a_key_is_made_shown_once_and_revoked_on_the_account_page(desk: Desk, axe: str) -> None:
    desk.open("/me")
    desk.browser.fill("#key-name", "Nightly report")
    desk.browser.evaluate("document.querySelector('#new-key [value=write]').click()")
    desk.press("#new-key button")
    desk.until("document.activeElement.id === 'made-key'", "the key, with the focus")
    key = desk.browser.evaluate("document.querySelector('#made-key code').textContent")
    assert desk.running.http.get("/api/me", headers={"X-API-Key": key}).json()["email"] == ANN
    desk.check(axe)
    desk.browser.click("#key-kept")
    revoke = '[data-delete^="/api/keys/"]'
    listed = desk.browser.evaluate(f"document.querySelector('{revoke}').closest('li').innerText")
    assert ["Nightly report" in listed, "read" in listed, "write" in listed, "last used" in listed] == [True] * 4
    assert key not in desk.browser.evaluate("document.documentElement.outerHTML")
    desk.check(axe)
    desk.press(revoke)
    desk.press("dialog .danger")
    desk.until(f"!document.querySelector('{revoke}')", "the key is revoked")
    assert desk.running.http.get("/api/me", headers={"X-API-Key": key}).status_code == 401


def test_a_question_during_a_first_sync_says_that_documents_are_still_read(desk: Desk, axe: str) -> None:
    desk.site.sql("INSERT INTO sync_jobs (source, status, documents, done) VALUES ('slack', 'running', 100, 40)")
    desk.open("/?q=lantern")
    desk.press("#ask")
    desk.until(
        "document.querySelector('#answer .note')?.textContent.startsWith('Still reading Slack')",
        "a note with the answer",
    )
    assert "No data found" in desk.browser.text
    assert "100" not in desk.browser.evaluate("document.querySelector('main').textContent")
    desk.check(axe)
