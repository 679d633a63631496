"""A citation shows the very sentence that is quoted, marked, in the panel, on the document's page and from a shared answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
FILLER = "The ferry to the island runs every day and takes bicycles.\n\n"


class Case(NamedTuple):
    question: str
    title: str
    text: str
    marked: str
    """What is marked at least, as it is in the document."""
    more: Mapping[str, Any] = MappingProxyType({})


CASES = (
    Case(
        "When is the kettle descaled?", "wrapped",
        FILLER * 12 + "The kettle is\ndescaled  on\nFridays at four. The sieve is not.\n\n" + FILLER,
        "The kettle is descaled on Fridays at four.",
    ),
    Case(
        "Who feeds the parrot?", "markdown", "# Parrot\n\n- **Marta** feeds the _parrot_ at noon.\n- Nobody else does it.",
        "**Marta** feeds the _parrot_ at noon.",
    ),
    Case(
        "Which pump serves Balsfjord?", "rows.csv",
        "\n".join(["pump | place | year", *(f"P-{n} | Town{n} | 20{n}" for n in range(10, 40)), "P-77 | Balsfjord | 2026"]),
        "P-77 | Balsfjord | 2026",
    ),
    Case(
        "What does a lantern cost?", "table",
        "Our prices are these.\n\nitem | price\nLantern | 40 euros\nWick | 2 euros\n\nThey hold for a year.",
        "Lantern | 40 euros",
    ),
    Case(
        "What torque do the bolts of the mast need?", "pages.pdf",
        FILLER + "The bolts of the mast need a torque of 18 Nm.",
        "The bolts of the mast need a torque of 18 Nm.",
        {
            "page_start": 1, "page_end": 2,
            "places": [
                {"start_char": 0, "page": 1, "anchor": None, "section_path": []},
                {"start_char": len(FILLER), "page": 2, "anchor": None, "section_path": []},
            ],
        },
    ),
    Case(
        "Where is the spare anchor kept?", "emoji", "🚢🚢 Ahoy 🚢!\n\nThe spare anchor is kept in the blue shed. 🚢",
        "The spare anchor is kept in the blue shed.",
    ),
    Case(
        "Where is the spare rudder kept?", "two quotes after emoji",
        "🚢🚢🚢🚢🚢🚢 The spare rudder is kept in the red shed.\n\n" + FILLER * 6 + "A spare rudder for the dinghy is kept in the hall.",
        "The spare rudder is kept in the red shed.",
    ),
    Case(
        "How long does the battery of the buoy last?", "case", "THE BATTERY OF THE BUOY LASTS FOUR YEARS.\nIt is sealed.",
        "THE BATTERY OF THE BUOY LASTS FOUR YEARS.",
    ),
)  # fmt: skip


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    site.settings = site.settings.model_copy(update={"public_url": None})
    for case in CASES:
        site.add(case.title, [case.text], [ANN], places=[case.more])
    with site.running() as running:
        yield running


@pytest.fixture
def browser(running: Running, tmp_path: Path) -> Iterator[Browser]:
    with running_browser(tmp_path / "profile") as browser:
        browser.look(width=1280)
        browser.signed_in(running.url, running.site.session(ANN))
        yield browser
        assert browser.complaints == []


def marked(browser: Browser, selector: str) -> str:
    """Return what is marked, once a person sees it, in one line and without the bars between cells."""
    name = json.dumps(selector)
    browser.wait(
        lambda one: one.evaluate(
            f"(() => {{ const at = document.querySelector({name})?.getBoundingClientRect();"
            " return !!at && at.top >= 0 && at.bottom <= innerHeight })()"
        ),
        f"{selector} is in view",
    )
    cells = browser.evaluate(f"[...document.querySelectorAll({name})].map(one => one.textContent)")
    return " ".join(" ".join(cells).replace(" | ", " ").split())


def picture(browser: Browser, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        for width, dark in ((390, True), (390, False), (1280, True), (1280, False)):
            browser.look(width=width, dark=dark)
            browser.settle()
            browser.screenshot(Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole=False)


def test_the_sentence_is_marked_in_panel_page_and_shared_answer(running: Running, browser: Browser) -> None:
    found: dict[str, list[str]] = {}
    for case in CASES:
        browser.goto(running.url)
        browser.evaluate("document.getElementById('q').focus()")
        browser.type(case.question)
        browser.press("Enter")
        browser.wait(lambda one: one.evaluate("!!document.querySelector('.answer .actions')"), "an answer")
        browser.evaluate("document.querySelector('.answer .cite').click()")
        found[case.title] = [marked(browser, "#passage mark")]
        assert ("page 2" in browser.evaluate("document.querySelector('#passage h2 + p').textContent")) == bool(
            case.more
        )
        picture(browser, f"panel-{case.title}")

        browser.click("#passage .row a:last-child")
        found[case.title].append(marked(browser, "mark.quote"))
        assert ("page 2" in browser.text) == bool(case.more)
        picture(browser, f"page-{case.title}")

        running.settle()
        ((answer_id,),) = running.site.sql("SELECT answer_id::text FROM answers ORDER BY created_at DESC LIMIT 1")
        browser.goto(f"{running.url}/answers/{answer_id}")
        picture(browser, f"answer-{case.title}")
        browser.evaluate("document.querySelector('#text a.cite').click()")
        browser.wait(lambda one: one.evaluate("!!document.querySelector('#passage mark')"), "the passage")
        browser.click("#passage .row a:last-child")
        found[case.title].append(marked(browser, "mark.quote"))
    for case in CASES:
        # The neighbours that are quoted with the sentence are marked with it.
        assert all(case.marked.replace(" | ", " ") in one for one in found[case.title]), (case.title, found[case.title])
        assert len(found[case.title]) == 3
