"""The start page: recent questions of one's own, examples from what one may read, and what is connected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from selectolax.lexbor import LexborHTMLParser

from resources.core.domain import SourceName
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.search.start import EXAMPLES, LONGEST, QUESTIONS, ExampleSearch, examples
from sql.serving_rows import LatestDocument
from tests.fixtures.serving import Running, Site
from tests.integration.test_search_page import ANN, BOB, SCRIPT, page, titles


def offered(shown: LexborHTMLParser) -> list[str]:
    return [" ".join(one.text().split()) for one in shown.css(".examples a")]


def test_examples_are_what_the_person_may_read_and_find_it(site: Site, running: Running) -> None:
    site.add("Travel policy", ["Trains come first."], [ANN])
    site.add("Merger plan", ["The merger is on Monday."], [BOB])
    site.add("Old rules", ["Trains come last."], [ANN], tags={"lifecycle": "archived"})
    site.add("Spam from Bob", ["Buy this."], [ANN], source=SourceName.UPLOAD)
    stale = datetime.now(UTC) - timedelta(days=30)
    site.add("Unchecked", ["Trains."], [ANN], partition="stale", acl_checked_at=stale)
    shown = page(running, "/")
    assert offered(shown) == ["Travel policy"]
    assert titles(page(running, shown.css_first(".examples a").attributes["href"] or ""))[0] == "Travel policy"
    assert offered(page(running, "/", BOB)) == ["Merger plan"]
    assert offered(page(running, "/", "eve@other.com")) == []
    site.sql("UPDATE documents SET permissions = '{}' WHERE source_title = 'Travel policy'")
    assert offered(page(running, "/")) == []


def test_sources_take_turns_and_the_latest_comes_first(site: Site, running: Running) -> None:
    now = datetime.now(UTC)
    for number in range(EXAMPLES + 1):
        site.add(f"File {number}", ["Tea."], [ANN], modified_at=now - timedelta(hours=number))
    site.add(f"#general: {SCRIPT}", ["Tea."], [ANN], source=SourceName.SLACK, mime_type=CONVERSATION)
    assert offered(page(running, "/")) == ["File 0", SCRIPT, "File 1", "File 2"]


def test_an_example_is_short_and_given_once() -> None:
    words = "The very long title of a document that nobody would ever want to type into a box"
    rows = [
        LatestDocument(title, "text/markdown") for title in (words, "Tea", "tea", " \n ", "x" * 2 * LONGEST, *"abcdef")
    ]
    found = examples(rows)
    assert [one.query for one in found] == [words[:56], "Tea", "x" * LONGEST, "a"]
    assert ExampleSearch("Tea & cake", "text/markdown").address == "/?q=Tea+%26+cake"


def test_ones_own_latest_questions_are_listed(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN, BOB])
    asked = [f"When is kettle number {number} descaled?" for number in range(QUESTIONS + 1)]
    for who, questions in (
        (ANN, [*asked, "when is kettle number 3 descaled?", asked[-1]]),
        (BOB, ["Who descales the kettle?"]),
    ):
        for question in questions:
            running.request("POST", "/api/ask", who, json={"query": question})
    running.settle()
    shown = page(running, "/")
    links = shown.css('#begin a[href^="/answers/"]')
    assert [one.text() for one in links] == [
        asked[5],
        "when is kettle number 3 descaled?",
        asked[4],
        asked[2],
        asked[1],
    ], "each once"
    assert page(running, links[0].attributes["href"] or "").css_first("h1").text() == asked[-1]


def test_what_is_connected_and_when_it_was_read(site: Site, running: Running) -> None:
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, completed_at)"
        " VALUES ('slack', 'success', now() - interval '3 hours', now() - interval '2 hours 5 minutes'),"
        " ('google_drive', 'failed', now(), now())"
    )
    assert [" ".join(one.text().split()) for one in page(running, "/").css(".connected li")] == [
        "Slack, read 2 h ago",
        "Files, not read yet",
    ]
    assert page(running, "/?q=tea").css_first("#begin") is None
