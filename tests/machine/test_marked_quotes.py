"""Seven citations of the sample company, one a format: the quoted sentence is marked in panel, page and shared answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration.demo import sample
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.company import Company
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.xdist_group("company")

PEOPLE = sample.people()
QUESTIONS = [one for one in sample.questions() if one.source_id is not None]
LEAST_LETTERS = 12
FORMATS = (".pdf", ".xlsx", ".csv", ".pptx", ".docx", ".html", ".md")


@pytest.fixture(scope="module")
def running(company: Company, bundled_model: Any) -> Iterator[Running]:
    """A second app over the same index, without a language model."""
    wanted = {"llm_model": None, "search_rate_limit": 1_000_000, "public_url": None}
    with Site(company.settings.model_copy(update=wanted), bundled_model).running() as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with running_browser(tmp_path / "profile") as browser:
        browser.look(width=1280)
        yield browser


def letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def until(browser: Browser, expression: str) -> None:
    browser.wait(lambda one: one.evaluate(f"!!({expression})"), expression)


def marked(browser: Browser, selector: str) -> str:
    """Return what is marked, and fail unless a person sees it."""
    until(browser, f"document.querySelector({json.dumps(selector)})")
    browser.wait(
        lambda one: one.evaluate(
            f"(() => {{ const at = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return at.top >= 0 && at.top < innerHeight })()"
        ),
        f"{selector} is in view",
    )
    return str(
        browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.textContent).join(' ')"
        )
    )


def picture(browser: Browser, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        for width, dark in ((1280, False), (390, True), (390, False), (1280, True)):
            browser.look(width=width, dark=dark)
            browser.settle()
            browser.screenshot(Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole=False)
        browser.look(width=1280)


def holds(shown: str, quote: str) -> bool:
    """Return True if what is marked holds the quote; of a row that is quoted with the header of its table, the row is marked."""
    return quote in shown or (len(shown) > LEAST_LETTERS and quote.endswith(shown))


@pytest.mark.parametrize("ending", FORMATS)
def test_the_sentence_is_marked_in_panel_page_and_shared_answer(
    running: Running, browser: Browser, ending: str
) -> None:
    wanted = next(one for one in QUESTIONS if one.source_id is not None and one.source_id.endswith(ending))
    person = PEOPLE[wanted.may[0]]
    token = running.site.token(person.email, *person.groups)
    browser.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {token}"})
    browser.goto(running.url)
    browser.evaluate("document.getElementById('q').focus()")
    browser.type(wanted.question)
    browser.press("Enter")
    until(browser, "document.querySelector('.answer .actions')")
    quote = letters(browser.evaluate("document.querySelector('.answer .text p').textContent.replace(/\\d+$/, '')"))
    browser.evaluate("document.querySelector('.answer .cite').click()")
    assert holds(letters(marked(browser, "#passage mark")), quote)
    picture(browser, f"panel{ending}")

    running.settle()
    browser.click("#passage .row a:last-child")
    assert holds(letters(marked(browser, "mark.quote")), quote)
    picture(browser, f"page{ending}")

    ((answer_id,),) = running.site.sql(
        "SELECT answer_id::text FROM answers WHERE email = %s ORDER BY created_at DESC LIMIT 1", person.email
    )
    browser.goto(f"{running.url}/answers/{answer_id}")
    picture(browser, f"answer{ending}")
    browser.evaluate("document.querySelector('#text a.cite').click()")
    browser.wait(
        lambda page: page.evaluate("!!document.querySelector('#passage mark')"), "the passage of a kept answer"
    )
    assert holds(letters(marked(browser, "#passage mark")), quote)
    browser.click("#passage .row a:last-child")
    assert holds(letters(marked(browser, "mark.quote")), quote)
    assert browser.complaints == []
