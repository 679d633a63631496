"""The page of a document as HTML: outline, parts, and what only its owner sees."""

from __future__ import annotations

import json

from selectolax.lexbor import LexborHTMLParser

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site
from tests.integration.test_documents_http import upload
from tests.integration.test_search_page import ANN, BOB, SCRIPT, fetched, page

FILLER = "The ferry runs every twenty minutes. " * 300


def chapters(count: int) -> tuple[list[str], list[dict[str, object]]]:
    texts = [f"Chapter {number}\n\n{FILLER}" for number in range(count)]
    return texts, [{"section_path": [f"Chapter {number}"], "page_start": number + 1} for number in range(count)]


def targets(shown: LexborHTMLParser) -> list[str]:
    return [one.attributes["href"] or "" for one in shown.css(".outline a")]


def test_a_long_document_is_shown_in_parts_with_the_outline_of_all(site: Site, running: Running) -> None:
    texts, places = chapters(10)
    doc_id = site.add("Handbook", texts, [ANN], places=places, page_count=10)
    here = page(running, f"/documents/{doc_id}?chunk=5")
    assert here.css_first("mark#place").text() == "Chapter 5"
    assert [one.text() for one in here.css(".outline a")] == [f"Chapter {number}" for number in range(10)]
    assert here.css_first("#page6").text() == "Page 6"
    assert [one.text() for one in here.css(".outline a[aria-current=location]")] == ["Chapter 5"]
    names = [one.text() for one in here.css("article h2")]
    assert 3 <= len(names) < 10
    seen = set(names)
    for rel in ("prev", "next"):
        shown = here
        while (link := shown.css_first(f"a[rel={rel}]")) is not None:
            shown = page(running, f"/documents/{doc_id}{link.attributes['href']}")
            seen |= {one.text() for one in shown.css("article h2")}
            assert shown.css_first("mark") is None
    assert seen == {f"Chapter {number}" for number in range(10)}
    last = targets(here)[-1]
    there = page(running, f"/documents/{doc_id}{last.partition('#')[0]}")
    assert there.css_first(last[last.index("#") :]).next.text() == "Chapter 9"
    assert [one.text() for one in there.css(".outline a[aria-current]")] == ["Chapter 9"]


def test_a_short_document_has_neither_parts_nor_an_outline(site: Site, running: Running) -> None:
    doc_id = site.add("Tea", ["Tea is served at four.", "Always."], [ANN])
    shown = page(running, f"/documents/{doc_id}")
    assert (shown.css("a[rel]"), shown.css(".outline")) == ([], [])
    assert "Tea is served at four." in shown.css_first("article").text()
    beyond = page(running, f"/documents/{doc_id}?start=900000")
    assert beyond.css_first("article a").attributes["href"] == f"/documents/{doc_id}"


def test_a_link_to_a_passage_that_is_gone_opens_the_document_at_its_beginning(site: Site, running: Running) -> None:
    doc_id = site.add("Tea", ["Tea is served at four.", "Always."], [ANN])
    shown = page(running, f"/documents/{doc_id}?chunk=7&from=3&to=9")
    assert "This passage is no longer in the document." in shown.css_first("header .note").text()
    assert shown.css_first("article").text().strip().startswith("Tea is served at four.")
    assert shown.css("mark") == []
    assert page(running, f"/documents/{doc_id}?chunk=1").css(".note") == []
    gone = running.request("GET", f"/api/documents/{doc_id}?chunk=7", ANN)
    assert (gone.status_code, gone.json()["detail"]) == (404, "This passage is no longer in the document.")
    hidden = [
        page(running, f"/documents/{doc_id}?chunk={chunk}", BOB, 404).css_first("main").text() for chunk in (0, 7)
    ]
    assert hidden[0] == hidden[1]
    assert "no longer" not in hidden[0]


def test_only_the_owner_sees_who_may_read_it_and_changes_an_upload(site: Site, running: Running) -> None:
    metadata = json.dumps({"title": "Tea", "tags": {"topic": "kitchen"}, "share": [BOB]})
    doc_id = str(upload(running, ANN, "tea.md", b"Tea is served at four.", metadata)["doc_id"])
    ((source_id,),) = site.sql("SELECT source_id FROM uploads")
    site.add("Tea", ["Tea is served at four."], [ANN, BOB], source=SourceName.UPLOAD, source_id=source_id, owner=ANN)
    own = page(running, f"/documents/{doc_id}")
    assert [one.text() for one in own.css("#readers li")] == [ANN, BOB]
    changes = json.loads(own.css_first("#changes").attributes["data-changes"] or "")
    assert changes == {"title": "Tea", "tags": {"topic": "kitchen"}, "share": [BOB]}
    assert own.css_first("#delete") is not None
    others = page(running, f"/documents/{doc_id}", BOB)
    assert others.css("#readers, #changes, #delete") == []
    assert page(running, f"/documents/{doc_id}", "eve@other.com", 404).css("#readers, .document") == []


def test_the_owner_of_a_document_elsewhere_sees_its_readers_alone(site: Site, running: Running) -> None:
    doc_id = site.add("Plan", ["The plan."], [ANN, "group:crew@acme.com", "domain:acme.com"], owner=ANN)
    own = page(running, f"/documents/{doc_id}")
    assert [one.text() for one in own.css("#readers li")] == [ANN, "Everyone at acme.com", "Group crew@acme.com"]
    assert own.css("#changes, #delete") == []
    assert page(running, f"/documents/{doc_id}", BOB).css("#readers") == []


def test_nothing_of_a_document_is_markup_on_its_page(site: Site, running: Running) -> None:
    doc_id = site.add(
        f"Tea {SCRIPT}",
        [f"{SCRIPT}\n\nThe kettle {SCRIPT}."],
        [ANN, f"group:{SCRIPT}@acme.com"],
        owner=ANN,
        path=f"a/{SCRIPT}.md",
        url="javascript:alert(1)",
        places=[{"section_path": [SCRIPT]}],
    )
    answer = fetched(running, f"/documents/{doc_id}?chunk=0")
    assert SCRIPT not in answer.text
    assert "javascript:" not in answer.text
    shown = LexborHTMLParser(answer.text)
    assert [(one.attributes["src"] or "").rpartition("/")[2] for one in shown.css("script")] == ["viewer.js"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert shown.css_first(".outline a").text() == SCRIPT
