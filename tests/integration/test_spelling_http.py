"""Found while typing: the beginning of a word, one error, names first, exact words before meaning, nothing for meaningless letters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from resources.core.errors import OverloadedError
from serving.search.retrieval import retriever
from serving.search.retrieval.registry import Registry
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
EVERYONE = ["domain:acme.com"]


@pytest.fixture
def lab(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(retriever, "LOOK_UP_SECONDS", 30.0)
    site.add("Calibration procedure", ["Every gauge is checked against the reference cell once a month."], EVERYONE)
    site.add(
        "readings", ["gauge,calibration,offset\n17,calibration,0.2\n18,calibration,0.4"], EVERYONE, mime_type="text/csv"
    )
    site.add("Gauges", ["Gauges are adjusted and verified before each measurement, and certified each year."], EVERYONE)
    site.add(
        "LICENSE",
        ["Permission is hereby granted to use, copy and modify the software."],
        EVERYONE,
        path="lru-cache/LICENSE.md",
        source_id="root/lru-cache/LICENSE.md",
    )
    site.add(
        "LICENSE",
        ["Permission is granted to redistribute the software under the license."],
        EVERYONE,
        path="minimatch/LICENSE.md",
        source_id="root/minimatch/LICENSE.md",
    )
    site.add("Redundancies", ["The reorganisation begins in Wolverhampton."], [ANN])
    return site


def paths(found: dict[str, Any]) -> list[str]:
    return [one["path"] for one in found["results"]]


@pytest.mark.parametrize("query", ["calib", "calibrat", "CALIBRATI", "gauge calibrat"])
def test_the_last_word_is_the_beginning_of_a_word(lab: Site, running: Running, query: str) -> None:
    found = running.search(query, BOB)
    assert {"Calibration procedure", "readings"} <= {one["title"] for one in found["results"]}
    assert [(one["instead"], one["kind"]) for one in found["spelling"]] == [(["calibration"], "beginning")]
    assert "corrected" not in found


@pytest.mark.parametrize("error", ["calibartion", "calbration", "calibrationn", "calibretion", "xalibration"])
def test_one_error_is_tolerated_and_corrected(lab: Site, running: Running, error: str) -> None:
    found = running.search(f"{error} procedure", BOB)
    assert found["results"][0]["title"] == "Calibration procedure"
    assert found["corrected"] == "calibration procedure"
    assert found["spelling"] == [{"word": error, "instead": ["calibration"], "kind": "error"}]


def test_other_words_keep_their_accents_in_a_correction(lab: Site, running: Running) -> None:
    lab.add("Congés", ["La délégation des congés est affichée à l'entrée."], EVERYONE)
    assert (
        running.search("Où est affichée la délégtion des congés ?", BOB)["corrected"]
        == "Où est affichée la délégation des congés ?"
    )


@pytest.mark.parametrize(
    ("query", "instead", "kind"),
    [
        ("Kündig", "kündigung", "beginning"),
        ("KÜNDIGU", "kündigung", "beginning"),
        ("Kündigng Frist", "kündigung", "error"),
        ("Gracía invoice", "garcía", "error"),
        ("зарлат invoice", "зарплат", "error"),
        ("εκδροη invoice", "εκδρομη", "error"),
        ("Rechnugn Größe", "rechnung", "error"),
    ],
)
def test_words_with_accents_are_completed_and_corrected(
    lab: Site, running: Running, query: str, instead: str, kind: str
) -> None:
    lab.add(
        "Rechnung 12",
        ["Die Kündigung: Frist zum Monatsende. An invoice for José García. Рост зарплат. Η εκδρομη."],
        EVERYONE,
    )
    found = running.search(query, BOB)
    assert "Rechnung 12" in [one["title"] for one in found["results"]]
    assert [(one["instead"], one["kind"]) for one in found["spelling"]] == [([instead], kind)]


def test_a_word_that_passages_hold_stays_as_it_is(lab: Site, running: Running) -> None:
    for query in ("calibration", "gauge", '"calib"', "Gauges are adjusted"):
        found = running.search(query, BOB)
        assert not {"spelling", "corrected"} & set(found)


def test_a_word_that_the_language_has_is_no_error_for_another(lab: Site, running: Running) -> None:
    assert running.search("moonth procedure", BOB)["corrected"] == "month procedure"
    assert not {"spelling", "corrected"} & set(running.search("mouth procedure", BOB))


def test_words_of_documents_that_one_may_not_read_complete_and_correct_nothing(lab: Site, running: Running) -> None:
    for query in ("wolver", "wolverhamton", "reorganisaton", "redundanc", "Wolverhampton"):
        hidden = running.search(query, BOB)
        assert (hidden["results"], {"spelling", "corrected"} & set(hidden)) == ([], set())
        assert running.search(query, ANN)["results"][0]["title"] == "Redundancies"


def test_an_exact_word_comes_before_meaning_and_a_title_before_both(lab: Site, running: Running) -> None:
    titles = [one["title"] for one in running.search("calibration", BOB)["results"]]
    assert titles[:2] == ["Calibration procedure", "readings"]


def test_words_of_the_path_count(lab: Site, running: Running) -> None:
    assert paths(running.search("license of lru-cache", BOB))[0] == "lru-cache/LICENSE.md"
    assert paths(running.search("minimatch license", BOB))[0] == "minimatch/LICENSE.md"


@pytest.mark.parametrize("query", ["qwxzvk", "xkcdqw zzvbn", "asdfjkl", "bvnmqwe rtzuio plkjh"])
def test_meaningless_letters_find_nothing(lab: Site, running: Running, query: str) -> None:
    assert running.search(query, BOB, total=True)["total"] == {"count": 0, "exact": True}


@pytest.fixture
def abroad(site: Site) -> Site:
    site.add("HR 17", ["Der Vertrag endet mit einem Werkzeug, dem Bürostuhl und der Zulage."], EVERYONE, language="de")
    site.add("HR 18", ["Sözleşme ve izin."], EVERYONE, language="tr")
    site.add("HR 19", ["A szabadság éves."], EVERYONE, language="hu")
    site.add("HR 23", ["Il contratto con ogni fornitore dura due anni."], EVERYONE, language="it")
    site.add("HR 20", ["The lunch menu of the canteen changes each week."], EVERYONE)
    return site


@pytest.mark.parametrize(
    ("query", "title"),
    [
        *((one, "HR 17") for one in ("Verträgen", "Werkzeugen", "Bürostühlen", "Zulagen")),
        *((one, "HR 18") for one in ("sözleşmeler", "izinler")),
        ("szabadságok", "HR 19"),
        ("contratti fornitori", "HR 23"),
    ],
)
def test_a_word_that_the_stemmer_of_its_language_finds_is_neither_lost_nor_corrected(
    abroad: Site, running: Running, query: str, title: str
) -> None:
    found = running.search(query, BOB)
    assert found["results"][0]["title"] == title
    assert not {"spelling", "corrected"} & set(found)


@pytest.fixture
def private(site: Site) -> None:
    site.add("HR 21", ["Der Vertrag endet."], [ANN], language="de")
    site.add("HR 22", ["The lunch menu of the canteen changes each week."], EVERYONE)


@pytest.mark.usefixtures("private")
def test_a_word_of_a_document_that_one_may_not_read_is_lost(running: Running) -> None:
    assert running.titles("Verträgen", ANN) == ["HR 21"]
    assert running.titles("Verträgen", BOB) == []


def page(running: Running, query: str) -> LexborHTMLParser:
    answer = running.request("GET", "/results", BOB, params={"q": query})
    assert answer.status_code == 200
    return LexborHTMLParser(answer.text)


def test_the_page_asks_whether_another_word_was_meant(lab: Site, running: Running) -> None:
    link = page(running, "calibartion procedure").css_first("#corrected a")
    assert link.text() == "calibration procedure"
    assert link.attributes["href"] == "/?q=calibration+procedure"
    assert page(running, "calibration").css_first("#corrected") is None
    assert page(running, "calib").css_first("#corrected") is None, "somebody is still typing"


def test_weak_results_are_folded(lab: Site, running: Running) -> None:
    found = running.search("verified measurement", BOB, top_k=10)["results"]
    weak = [one["title"] for one in found if "weak" in one]
    assert (found[0]["title"], "weak" in found[0]) == ("Gauges", False)
    assert "Calibration procedure" in weak
    shown = page(running, "verified measurement")
    good = len(found) - len(weak)
    assert shown.css_first(".count").text() == f"{good} good result{'' if good == 1 else 's'}"
    assert shown.css_first(".weaker summary").text() == f"Show {len(weak)} weaker"
    assert len(shown.css(".results > .result")) == len(found)
    assert len(shown.css(".weaker .results > .result")) == len(weak)


async def _fails(*_: Any, **__: Any) -> Any:
    raise OverloadedError("Postgres is too busy to answer in time.", 2.0)


async def _hangs(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(60)


@pytest.mark.parametrize("looking_up", [_fails, _hangs])
def test_a_search_goes_on_without_the_words_that_cannot_be_looked_up(
    lab: Site, running: Running, monkeypatch: pytest.MonkeyPatch, looking_up: Any
) -> None:
    """They only add to what was found: a busy database must not cost the results."""
    monkeypatch.setattr(retriever, "LOOK_UP_SECONDS", 0.1)
    monkeypatch.setattr(Registry, "words", looking_up)
    found = running.search("calibartion gauges", ANN)
    assert found["results"]
    assert not {"spelling", "corrected"} & set(found)
