"""The search page as HTML: what each person finds, filters as links, and what it says when something is wrong."""

from __future__ import annotations

import unicodedata
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser

from resources.core.domain import SourceName
from resources.settings import Settings
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
SCRIPT = "<script>alert(1)</script>"


def page(running: Running, path: str, who: str | None = ANN, status: int = 200) -> LexborHTMLParser:
    answer = fetched(running, path, who)
    assert answer.status_code == status, answer.text
    return LexborHTMLParser(answer.text)


def fetched(running: Running, path: str, who: str | None = ANN, **headers: str) -> httpx.Response:
    session = running.site.session(who) if who else {}
    return running.http.get(path, headers={**session, **headers})


def titles(shown: LexborHTMLParser) -> list[str]:
    return [one.text() for one in shown.css(".result h2 a")]


def test_a_stranger_sees_what_this_is_and_signs_in_to_search(running: Running) -> None:
    assert "Sign in" in page(running, "/", None).css_first("main").text()
    shown = page(running, "/?q=tea", None, 401)
    assert shown.css_first('a[href^="/sign-in/acme?next="]').attributes["href"].endswith("next=%2F%3Fq%3Dtea")
    assert fetched(running, "/results?q=tea", None).status_code == 401


def test_each_person_finds_what_that_person_may_read(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Coffee", ["The kettle is for coffee, too."], [BOB])
    assert titles(page(running, "/?q=kettle")) == ["Tea"]
    assert titles(page(running, "/?q=kettle", BOB)) == ["Coffee"]
    assert titles(page(running, "/results?q=kettle", BOB)) == ["Coffee"]
    nothing = page(running, "/?q=kettle", "eve@other.com")
    assert titles(nothing) == []
    assert "Nothing found" in nothing.css_first("#results").text()


def test_a_first_sync_is_said_to_everyone_and_counted_for_operators_alone(site: Site) -> None:
    roles = Settings(_env_file=None, roles='{"operator": ["olga@acme.com"]}').roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles})
    site.sql("INSERT INTO sync_jobs (source, status, documents, done) VALUES ('slack', 'running', 100, 40)")
    site.sql("INSERT INTO sync_jobs (source, status, completed_at) VALUES ('files', 'failed', now())")
    with site.running() as running:

        def said(who: str) -> str | None:
            note = page(running, "/results?q=kettle", who).css_first("#reading")
            return note.text() if note else None

        assert said(ANN) == "Still reading Slack. Try again in a moment."
        assert said("olga@acme.com") == "Still reading Slack: 40 of 100 documents. Try again in a moment."
        site.sql("INSERT INTO sync_jobs (source, status) VALUES ('files', 'running')")
        site.sql("INSERT INTO sync_jobs (source, status, claimed_at) VALUES ('push', 'running', now())")
        assert said(ANN) == "Still reading Slack. Try again in a moment."
        site.sql("UPDATE sync_jobs SET claimed_at = now() WHERE source = 'files' AND status = 'running'")
        assert said(ANN) == "Still reading Files and Slack. Try again in a moment."
        site.sql("INSERT INTO sync_jobs (source, status, completed_at) VALUES ('files', 'success', now())")
        site.sql("UPDATE sync_jobs SET status = 'success', completed_at = now() WHERE source = 'slack'")
        assert said("olga@acme.com") is None


def test_filters_stay_in_the_address_and_narrow(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN], owner="marta@acme.com")
    site.add("Talk", ["The kettle is broken."], [ANN], source=SourceName.SLACK, mime_type="text/html")
    both = page(running, "/?q=kettle")
    assert {one.attributes["value"] for one in both.css("select[name=source] option")} == {"", "files", "slack"}
    assert both.css_first(".count").text() == "2 documents"
    narrowed = page(running, "/?q=kettle&source=slack&days=30")
    assert titles(narrowed) == []  # a year old
    assert titles(page(running, "/?q=kettle&source=slack")) == ["Talk"]
    assert titles(page(running, "/?q=kettle&type=text/markdown")) == ["Tea"]
    assert page(running, "/?q=kettle&source=slack").css_first("select[name=source] option[selected]").text() == "Slack"


def test_a_browser_that_opens_results_is_sent_to_the_search_page(running: Running) -> None:
    query = "q=kettle+%26+pot&source=slack&ignore=date"
    answer = fetched(running, f"/results?{query}", Accept="text/html,*/*")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/?{query}")


def test_a_result_has_one_link_to_each_page(site: Site, running: Running) -> None:
    here = site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    there = site.add("Pot", ["The kettle is heavy."], [ANN], url="https://wiki.example/pot")
    links = [one.attributes["href"] for one in page(running, "/?q=kettle").css(".result a")]
    assert sorted(filter(None, links)) == sorted(
        [f"/documents/{here}?chunk=0#place", f"/documents/{there}?chunk=0#place", "https://wiki.example/pot"]
    )


def test_a_source_that_is_not_known_is_left_out(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The kettle leaks."], [ANN], source=SourceName.SLACK)
    for path in ("/", "/results"):
        assert len(titles(page(running, f"{path}?q=kettle&source=wiki"))) == 2
        assert titles(page(running, f"{path}?q=kettle&source=slack")) == ["Talk"]
    saved = {"name": "Old", "query": "kettle", "filters": {"source_types": ["slack"]}}
    assert running.request("POST", "/api/saved-searches", ANN, json=saved).status_code == 200
    assert "Old" in [one.text() for one in page(running, "/").css("a[href*='source=slack']")]
    site.sql('UPDATE saved_searches SET filters = \'{"source_types": ["wiki"]}\'')
    assert page(running, "/").css("a[href*='q=kettle']") == []


def test_what_the_query_says_is_shown_and_can_be_removed(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The kettle is broken."], [ANN], source=SourceName.SLACK)
    shown = page(running, "/?q=the+kettle+from+Slack")
    assert titles(shown) == ["Talk"]
    chip = shown.css_first(".chip")
    assert chip.attributes["data-kind"] == "source"
    assert set(titles(page(running, chip.css_first("a").attributes["href"] or ""))) == {"Talk", "Tea"}


def test_filters_that_were_ignored_are_named_above_the_results(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The lantern is broken."], [ANN], source=SourceName.SLACK)
    shown = page(running, "/?q=the+kettle+from+Slack")
    assert titles(shown) == ["Tea"]
    said = "Nothing was found with “from Slack”, so these results are without this filter."
    assert shown.css_first("#ignored").text() == said
    assert page(running, "/?q=the+lantern+from+Slack").css("#ignored") == []
    assert page(running, "/?q=zzzzqqqq+from+Slack").css("#ignored") == []


def test_operators_are_chips_that_take_themselves_out_of_the_query(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The kettle is broken."], [ANN], source=SourceName.SLACK)
    shown = page(running, "/?q=in:slack+kettle+-Fridays")
    assert titles(shown) == ["Talk"]
    first, second = shown.css(".chip")
    assert [one.text(deep=False) for one in (first, second)] == ["In: slack", "Without: Fridays"]
    address = first.css_first("a").attributes["href"] or ""
    assert address == "/?q=kettle+-Fridays"
    assert titles(page(running, address)) == ["Talk"]
    assert set(titles(page(running, "/?q=kettle"))) == {"Talk", "Tea"}


def test_a_chip_takes_out_the_operator_of_a_query_in_decomposed_letters(site: Site, running: Running) -> None:
    """Positions count characters of the query in NFC, as it is searched."""
    site.add("Tea", ["The kettle belongs to Zoë Müller."], [ANN])
    query = unicodedata.normalize("NFD", "Zoë Müller type:md kettle")
    (chip,) = page(running, f"/?{urlencode({'q': query})}").css(".chip")
    assert parse_qs(urlsplit(chip.css_first("a").attributes["href"] or "").query)["q"] == ["Zoë Müller kettle"]


def test_more_results_continue_the_list(site: Site, running: Running) -> None:
    for number in range(13):
        site.add(f"Kettle {number}", [f"Kettle number {number} stands in the kitchen."], [ANN])
    first = page(running, "/?q=kettle")
    more = page(running, first.css_first("#more").attributes["href"] or "")
    assert len(titles(first)) == 10
    assert len({*titles(first), *titles(more)}) == 13
    assert more.css_first("#more") is None


def test_nothing_of_a_document_is_markup(site: Site, running: Running) -> None:
    site.add(f"Tea {SCRIPT}", [f"The kettle {SCRIPT} & more."], [ANN], owner=SCRIPT, path=f"a/{SCRIPT}.md")
    answer = fetched(running, f"/?q=kettle {SCRIPT}")
    assert SCRIPT not in answer.text
    assert "<mark>kettle</mark>" in answer.text
    scripts = LexborHTMLParser(answer.text).css("script")
    assert [(one.attributes["src"] or "").rpartition("/")[2] for one in scripts] == ["search.js"]
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_the_person_at_a_result_and_a_document_is_called_its_owner(site: Site, running: Running) -> None:
    doc_id = site.add("Tea", ["The kettle is descaled on Fridays."], [ANN], owner="marta@acme.com")
    for path in ("/?q=kettle", f"/documents/{doc_id}"):
        person = page(running, path).css_first(".facts .person")
        assert person.parent is not None
        assert " ".join(person.parent.text().split()) == "Owner: marta@acme.com"


def test_the_reason_of_a_result_adds_up(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    rows = [float(one.text()) for one in page(running, "/?q=kettle+Fridays").css(".why .number")]
    assert abs(sum(rows[:-1]) - rows[-1]) < 0.002


def test_faults_are_said_in_words(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    assert "cursor" in page(running, "/?q=kettle&cursor=x", status=400).css_first("main").text()
    part = fetched(running, "/results?q=kettle&cursor=x", **{"X-Part": "1"})
    assert part.status_code == 400
    assert part.text.startswith('<p role="alert">')
    assert "sign-in" in fetched(running, "/", None, Cookie="concordance=gone").text
    assert running.http.get("/static/other/app.css").headers["cache-control"] == "no-cache"
    assert running.http.get("/static/other/missing.css").status_code == 404
