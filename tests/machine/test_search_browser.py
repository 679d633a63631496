"""The search page in a real browser: typing, filters, answers, citations, sharing, keyboard, accessibility, hostile documents."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.axe import violations
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.firefox import running_firefox
from tests.fixtures.pictures import saved
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
QUESTION = "When is the kettle descaled?"


class Visit:
    """A person's browser at the search page."""

    def __init__(self, running: Running, browser: Browser) -> None:
        self.running, self.browser = running, browser

    def sign_in(self, who: str, path: str = "/") -> None:
        name, _, value = self.running.site.session(who)["Cookie"].partition("=")
        self.browser.forget()
        self.browser.call("Network.setCookie", name=name, value=value, url=self.running.url)
        self.browser.goto(self.running.url + path)

    def type(self, text: str) -> None:
        """Type into the search box, in place of what is there."""
        self.browser.evaluate("document.getElementById('q').select()")
        self.browser.type(text)

    def until(self, expression: str) -> None:
        self.browser.wait(lambda browser: browser.evaluate(expression), expression)

    def titles(self) -> list[str]:
        return self.browser.evaluate("[...document.querySelectorAll('.result h2 a')].map(one => one.textContent)")

    def harmless(self) -> None:
        """Fail if anything of a document became an element or ran."""
        made = "document.querySelectorAll('main img, main script:not(#data), [href^=\"javascript:\"]')"
        assert self.browser.evaluate(f"[...{made}].map(one => one.outerHTML)") == []
        assert self.browser.title != "hacked"

    def answered(self, number: int = 1) -> None:
        self.until(
            f"document.querySelectorAll('.answer .actions').length === {number} && !document.querySelector('.caret')"
        )


@pytest.fixture
def visit(site: Site, tmp_path: Path) -> Iterator[Visit]:
    site.add(
        "Tea", ["The kettle is descaled on Fridays, after four o'clock in the kitchen."], [ANN], owner="marta@acme.com"
    )
    site.add("Talk", ["The kettle leaks, says Bob."], ["domain:acme.com"], source=SourceName.SLACK)
    site.add(f"Hostile {HOSTILE}", [f"The kettle is {HOSTILE} descaled."], [ANN], owner=HOSTILE, path=HOSTILE)
    site.settings = site.settings.model_copy(update={"public_url": None})
    with site.running() as running, running_browser(tmp_path / "profile") as browser:
        visit = Visit(running, browser)
        yield visit
        assert browser.complaints == []
        foreign = [one for one in browser.requested if not one.startswith((running.url, "data:", "about:", "chrome"))]
        assert foreign == []


def test_each_person_searches_while_typing(visit: Visit) -> None:
    visit.sign_in(ANN)
    assert visit.browser.evaluate("document.activeElement.id") == "q"
    visit.type("kettle descaled")
    visit.until("document.querySelectorAll('.result').length === 3")
    assert visit.browser.url.endswith("/?q=kettle+descaled")
    visit.browser.evaluate(
        "(() => { const one = document.querySelector('select[name=source]'); one.value = 'slack';"
        " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    visit.until("document.querySelectorAll('.result').length === 1")
    assert visit.titles() == ["Talk"]
    visit.browser.evaluate("history.back()")
    visit.until("document.querySelectorAll('.result').length === 3")
    visit.type("")
    visit.browser.evaluate(
        "document.getElementById('q').value = ''; document.getElementById('q').dispatchEvent(new Event('input'))"
    )
    visit.until("document.querySelectorAll('.result').length === 0")

    visit.sign_in(BOB)
    visit.type("kettle")
    visit.until("document.querySelectorAll('.result').length > 0")
    assert visit.titles() == ["Talk"]


def test_what_is_typed_before_the_script_has_loaded_is_searched_for(visit: Visit) -> None:
    visit.sign_in(ANN)
    early = (
        "new MutationObserver((_, self) => { const q = document.getElementById('q');"
        " if (q) { q.value = 'kettle'; self.disconnect(); } }).observe(document, {childList: true, subtree: true});"
    )
    added = visit.browser.call("Page.addScriptToEvaluateOnNewDocument", source=early)
    visit.browser.goto(visit.running.url + "/")
    visit.until("document.querySelectorAll('.result').length > 0")
    visit.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def test_an_answer_with_its_sources_and_a_follow_up(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    assert "Fridays" in visit.browser.evaluate("document.querySelector('.answer .text').textContent")
    visit.browser.evaluate("document.querySelector('.cite').focus()")
    visit.browser.press("Enter")
    visit.until("document.activeElement.id === 'passage'")
    assert "four o'clock" in visit.browser.evaluate("document.querySelector('#passage blockquote').textContent")
    links = "[...document.querySelectorAll('#passage .row a')].map(one => one.textContent)"
    assert visit.browser.evaluate(links) == ["Read here"], "it has no other page"
    visit.browser.press("Escape")
    visit.until("document.getElementById('passage').hidden && document.activeElement.className === 'cite'")

    visit.browser.evaluate(
        "[...document.querySelectorAll('.actions button')].find(one => one.textContent === 'Useful').click()"
    )
    visit.until("document.querySelector('.actions [role=status]').textContent.startsWith('Thank you.')")
    assert visit.running.site.sql("SELECT verdict FROM feedback") == [("good",)]
    visit.browser.evaluate("document.querySelector('[data-shared]').click()")
    visit.until("document.querySelector('[data-shared]').dataset.shared === 'yes'")
    (answer_id,) = visit.running.site.sql("SELECT answer_id::text FROM answers WHERE shared_at IS NOT NULL")[0]

    visit.browser.evaluate("document.querySelector('.follow input').focus()")
    visit.browser.type("And where?")
    visit.browser.press("Enter")
    visit.answered(2)
    assert visit.browser.evaluate("document.activeElement.matches('.follow input')"), "the next one can be typed"
    assert (
        len(visit.browser.evaluate("[...document.querySelectorAll('.answer .question')].map(one => one.textContent)"))
        == 1
    )

    visit.sign_in(ANN, f"/answers/{answer_id}")
    visit.until("document.querySelectorAll('#text .cite').length > 0")
    visit.sign_in(BOB, f"/answers/{answer_id}")
    assert "you may not read" in visit.browser.text
    assert QUESTION not in visit.browser.text


ANSWER = """## Kettles 🫖
Two of them are in use [1].

### Prices
| Kettle | Price |
|:---|---:|
| Blue | **20** [1] |
| Red | 30 |
#### Remarks
- **None [1]**

31. Dezember 2025 is the deadline [1].

1. Fill it.
2) Boil it [1].
   - Slowly.
3. Pour.
1. Rinse.
1. Dry."""
PRICES = "Prices 🫖 of kettles.\nKettle | Price\n\nBlue | 20 euros\nRed | 30 euros\nAll are in stock."


def test_a_source_on_another_site_is_opened_there(visit: Visit) -> None:
    """Its path may begin as the paths of our own pages do."""
    url = "https://intranet.example/documents/kettle.html"
    visit.running.site.add("Manual", ["The blue kettle is boiled dry on Mondays."], [ANN], url=url)
    visit.sign_in(ANN)
    visit.type("When is the blue kettle boiled dry?")
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate(
        "[...document.querySelectorAll('.sources button')].find(one => one.textContent.includes('Manual')).click()"
    )
    opens = "[...document.querySelectorAll('#passage a')].find(one => one.textContent === 'Open at this place').href"
    assert visit.browser.evaluate(opens) == url


def test_a_link_that_is_to_open_elsewhere_leaves_the_page_as_it_is(visit: Visit) -> None:
    """A filter is taken out in another tab with Ctrl, and in another window with Shift."""
    visit.sign_in(ANN, "/?q=kettle+from+slack")
    visit.until("document.querySelectorAll('.chip a').length === 1")
    left = (
        "document.querySelector('.chip a').dispatchEvent("
        "new MouseEvent('click', {{bubbles: true, cancelable: true, {0}: true}}))"
    ).format
    assert all(visit.browser.evaluate(left(key)) for key in ("ctrlKey", "shiftKey"))
    visit.browser.evaluate("document.querySelector('.chip a').click()")
    visit.until("document.querySelectorAll('.chip a').length === 0")


def test_filters_are_used_by_keyboard(visit: Visit) -> None:
    """The list of results has the filters, and is replaced with each of them."""
    visit.sign_in(ANN, "/?q=kettle+from+slack")
    visit.browser.evaluate("document.querySelector('.chip a').focus()")
    visit.browser.press("Enter")
    visit.until("document.querySelectorAll('.chip a').length === 0 && document.activeElement.className === 'filters'")
    visit.browser.evaluate(
        "(() => { const one = document.querySelector('select[name=source]'); one.focus(); one.value = 'slack';"
        " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    visit.until("document.querySelectorAll('.result').length === 1")
    assert visit.browser.evaluate("[document.activeElement.name, document.activeElement.value]") == ["source", "slack"]


def test_results_of_the_words_before_are_dimmed_until_others_come(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type("kettle descaled")
    visit.until("document.getElementById('count').textContent === '3 documents'")
    visit.browser.evaluate(
        "(original => { window.fetch = async (...given) => { await new Promise((go) => (window.go = go));"
        " return original(...given); }; })(fetch)"
    )
    visit.type("kettle")
    visit.until("getComputedStyle(document.getElementById('results')).opacity < 1")
    assert visit.browser.evaluate("document.getElementById('count').textContent") == ""
    visit.browser.evaluate("go()")
    visit.until("getComputedStyle(document.getElementById('results')).opacity === '1'")


def test_skipping_to_the_content_keeps_the_answer(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate(
        "addEventListener('popstate', () => (window.moved = (window.moved ?? 0) + 1)); document.querySelector('.skip').focus()"
    )
    visit.browser.press("Enter")
    visit.until("location.hash === '#main' && window.moved === 1")
    visit.browser.evaluate("history.back()")
    visit.until("location.hash === '' && window.moved === 2")
    assert visit.browser.evaluate("document.querySelectorAll('.answer').length") == 1
    visit.browser.evaluate("history.forward()")
    visit.until("location.hash === '#main'")
    visit.running.settle()
    visit.browser.evaluate("location.reload()")
    visit.answered()


def test_a_follow_up_cannot_be_shared_once_the_answer_before_is_gone(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate("document.querySelector('.follow input').focus()")
    visit.browser.type("And where?")
    visit.browser.press("Enter")
    visit.answered(2)
    visit.running.settle()
    first = visit.browser.evaluate("history.state.answers[0]")
    visit.running.site.sql(
        "UPDATE answers SET sources = jsonb_set(jsonb_set(sources, '{0,chunk_id}', to_jsonb(answer_id)), '{0,doc_id}', "
        "to_jsonb(answer_id)) WHERE answer_id::text = %s",
        first,
    )
    visit.browser.evaluate("location.reload()")
    visit.answered()
    assert "you may no longer read it" in visit.browser.evaluate("document.querySelector('.answer').textContent")
    assert visit.browser.evaluate("document.querySelectorAll('[data-shared]').length") == 0


def test_answers_come_back_with_the_page_and_are_not_asked_for_again(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate("document.querySelector('.follow input').focus()")
    visit.browser.type("And where?")
    visit.browser.press("Enter")
    visit.answered(2)
    said = "[...document.querySelectorAll('.answer .text, .answer .question, .answer .sources b')].map(one => one.textContent)"
    before = visit.browser.evaluate(said)
    visit.browser.click(".result [href*='/documents/']")
    visit.browser.evaluate("history.back()")
    visit.answered(2)
    assert visit.browser.evaluate(said) == before
    visit.browser.call("Network.setBlockedURLs", urls=["*context=0"])
    visit.browser.evaluate("document.querySelector('.answer .cite').click()")
    visit.until("document.querySelector('#passage [role=alert]')?.textContent.includes('cannot be reached')")
    visit.browser.call("Network.setBlockedURLs", urls=[])
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if "context=0" not in one]
    visit.browser.evaluate("document.querySelector('.answer .cite').click()")
    visit.until("document.querySelector('#passage mark')?.textContent.includes('Fridays')")

    visit.type("kettle")
    visit.until("!document.querySelector('.answer')")
    visit.browser.evaluate("history.back()")
    visit.answered(2)
    visit.browser.evaluate("location.reload()")
    visit.answered(2)
    assert visit.running.site.sql("SELECT count(*) FROM answers") == [(2,)]
    saved(visit.browser, "answers-again")
    again = "[...document.querySelectorAll('.actions button')].filter(one => one.textContent === 'Ask again')"
    visit.browser.evaluate(f"({again}).at(-1).click()")
    visit.until(f"({again}).length === 0")
    visit.answered(2)
    visit.running.settle()
    assert visit.running.site.sql("SELECT count(*) FROM answers") == [(3,)]
    visit.running.site.sql("UPDATE documents SET permissions = '{}'")
    visit.browser.evaluate("location.reload()")
    visit.until("document.querySelector('#answer').textContent.includes('you may no longer read it')")


def test_answers_that_come_back_say_what_became_of_them(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.running.settle()
    visit.browser.evaluate(
        "[...document.querySelectorAll('.actions button')].find(one => one.textContent === 'Share by link').click()"
    )
    visit.until("!!document.querySelector('[data-shared=yes]')")
    shown = "[...document.querySelectorAll('.answer .sources li')].map(one => one.textContent.slice(0, 5))"
    assert visit.browser.evaluate(shown) == ["1 Tea"]
    visit.running.site.sql("DELETE FROM chunks WHERE chunk_text LIKE 'The kettle is descaled on%%'")
    visit.browser.evaluate("location.reload()")
    visit.answered()
    assert visit.browser.evaluate(shown) == ["1 Sou"]
    assert visit.browser.evaluate("document.querySelector('.answer .sources a').pathname").startswith("/documents/")
    assert "null" not in visit.browser.evaluate("document.querySelector('.answer .sources a').href")
    said = visit.browser.evaluate("document.querySelector('.answer').textContent")
    assert "A source has changed since, so it is no longer shown to others." in said
    assert "Stop sharing" in said


def test_answers_that_cannot_come_back_now_are_kept(visit: Visit) -> None:
    """Those that are deleted are left out, and so are those of who was signed in before."""
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    for number in (2, 3):
        visit.browser.evaluate("document.querySelector('.follow input').focus()")
        visit.browser.type("And where?")
        visit.browser.press("Enter")
        visit.answered(number)
    visit.running.settle()
    first, second, third = visit.browser.evaluate("history.state.answers")
    visit.browser.call("Network.setBlockedURLs", urls=[f"*/api/answers/{second}"])
    visit.browser.evaluate("location.reload()")
    visit.until("document.querySelector('#answer [role=alert]')?.textContent.includes('cannot be reached')")
    assert visit.browser.evaluate("history.state.answers") == [first, second, third]
    visit.running.site.sql("DELETE FROM answers WHERE answer_id::text = %s", second)
    visit.browser.call("Network.setBlockedURLs", urls=[])
    visit.browser.evaluate("document.querySelector('#answer [role=alert] + button').click()")
    visit.answered(2)
    visit.until(f'JSON.stringify(history.state.answers) === \'["{first}","{third}"]\'')
    visit.running.site.sql("UPDATE answers SET shared_at = now()")
    visit.browser.signed_in(visit.running.url, visit.running.site.session(BOB))
    visit.running.site.sql("UPDATE documents SET permissions = '{domain:acme.com}'")
    visit.browser.evaluate("location.reload()")
    visit.until("JSON.stringify(history.state.answers) === '[]'")
    assert not visit.browser.evaluate("!!document.querySelector('.answer')")
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if second not in one and "404" not in one]


def test_results_that_were_added_come_back_with_the_page(visit: Visit) -> None:
    for number in range(25):
        visit.running.site.add(f"Marble {number}", [f"Marbles are counted on Mondays in room {number}."], [ANN])
    visit.sign_in(ANN, "/?q=marbles")
    visit.browser.evaluate("document.querySelector('#more').click()")
    visit.until("document.querySelectorAll('.result').length === 20")
    visit.browser.click(".result [href*='/documents/']")
    visit.browser.evaluate("history.back()")
    visit.until("document.querySelectorAll('.result').length === 20")


def test_the_keyboard_goes_on_in_the_content_after_skipping_to_it(site: Site, tmp_path: Path) -> None:
    """Firefox went on with the links that were skipped."""
    site.settings = site.settings.model_copy(update={"public_url": None})
    name, _, value = site.session(ANN)["Cookie"].partition("=")
    with site.running() as running, running_firefox(tmp_path / "profile") as firefox:
        cookie = {"name": name, "value": {"type": "string", "value": value}, "domain": "127.0.0.1"}
        firefox.call("storage.setCookie", cookie=cookie)
        firefox.goto(f"{running.url}/history")
        firefox.press("Tab")
        firefox.wait(lambda one: one.evaluate("document.activeElement.className === 'skip'"), "the first link")
        firefox.press("Enter")
        firefox.wait(lambda one: one.evaluate("location.hash === '#main'"), "the content")
        firefox.press("Tab")
        firefox.wait(lambda one: one.evaluate("document.activeElement.matches('main #q')"), "the first field of it")


def test_an_answer_has_headings_and_tables_and_its_source_beside_it(visit: Visit, axe: str) -> None:
    site = visit.running.site
    site.add("Prices", [PRICES], [ANN])
    answer = visit.running.request("POST", "/api/ask", ANN, json={"query": "What is the price of the blue kettle?"})
    answer_id = answer.json()["answer_id"]
    visit.running.settle()
    site.sql("UPDATE answers SET answer = %s, sentences = '[]' WHERE answer_id = %s", ANSWER, answer_id)
    visit.browser.look(width=1280)
    visit.sign_in(ANN, f"/answers/{answer_id}")
    visit.until("!!document.querySelector('#text .cite')")
    read = "[...document.querySelectorAll({0})].map(one => one.tagName + ' ' + one.textContent)".format
    assert visit.browser.evaluate(read("'#text :is(h2, h3, h4)'")) == ["H2 Kettles 🫖", "H3 Prices", "H4 Remarks"]
    assert visit.browser.evaluate(read("'#text :is(th, td)'")) == [
        "TH Kettle",
        "TH Price",
        "TD Blue",
        "TD 20 1",
        "TD Red",
        "TD 30",
    ]
    visit.browser.evaluate("(one => (one.focus(), one.click()))(document.querySelector('#text td .cite'))")
    visit.until("!document.getElementById('passage').hidden")
    left, right, width = visit.browser.evaluate(
        "(([main, panel]) => [main.right, panel.left, panel.width])"
        "(['article.answer', '#passage'].map(one => document.querySelector(one).getBoundingClientRect()))"
    )
    assert (left < right, width) == (True, 400)
    assert visit.browser.evaluate(read("'#passage th'")) == ["TH Kettle", "TH Price"]
    assert visit.browser.evaluate(read("'#passage td'"))[:2] == ["TD Blue", "TD 20 euros"]
    assert visit.browser.evaluate(read("'#text b .cite'")) == ["A 1"]
    assert "All are in stock." in visit.browser.evaluate("document.getElementById('passage').textContent")
    assert visit.browser.evaluate(read("'#text > p'"))[-1] == "P 31. Dezember 2025 is the deadline 1."
    numbered = "[...document.querySelectorAll('#text ol > li')].map(one => `${one.value} ${one.textContent}`)"
    assert visit.browser.evaluate(numbered) == ["1 Fill it.", "2 Boil it 1.", "3 Pour.", "1 Rinse.", "1 Dry."]
    saved(visit.browser, "answer-beside")
    for width in (1280, 400):
        visit.browser.look(width=width)
        visit.browser.settle()
        assert violations(visit.browser, axe) == []
        assert visit.browser.fits(width)
    visit.browser.press("Escape")
    assert visit.browser.evaluate("document.activeElement.className") == "cite"


def test_a_name_without_spaces_breaks_and_other_scripts_are_read_from_the_right(visit: Visit) -> None:
    """A title in one word made pages 2220 pixels wide on a phone; sentences in Arabic ended on their wrong side."""
    long, leave = "Report_2026_reviewed_by_finance_and_legal_" * 4 + "final", "سياسة الإجازات"
    visit.running.site.add(
        long, [f"{long}\n\nMarbles are counted on Mondays."], [ANN], places=[{"section_path": [long]}]
    )
    visit.running.site.add(f"{long}2", [f"{long}\n\nMarbles are counted on Mondays."], [ANN])
    arabic = visit.running.site.add(leave, ["يحق لكل موظف ثمانية وعشرون يوما من الإجازة المدفوعة."], [ANN])
    visit.browser.look(width=390)
    visit.sign_in(ANN)
    assert visit.browser.fits(390), "start"
    visit.type("When are marbles counted?")
    visit.browser.press("Enter")
    visit.answered()
    visit.until("document.querySelectorAll('.result').length > 0")
    assert visit.browser.fits(390), "answer"
    visit.browser.click(".result [href*='/documents/']")
    assert visit.browser.fits(390), "document"
    visit.browser.look(width=1280)  # the sentence has one line
    visit.browser.goto(f"{visit.running.url}/documents/{arabic}")
    ends = (
        "(([one]) => [[0, 1], [one.length - 1, one.length]].map(([start, end]) => { const range = document.createRange();"
        "range.setStart(one, start); range.setEnd(one, end); return range.getBoundingClientRect().left; }))"
        "([document.evaluate(\"//*[contains(@class, 'document')]//text()[contains(., 'موظف')]\", document, null, 9).singleNodeValue])"
    )
    first, stop = visit.browser.evaluate(ends)
    assert stop < first


def test_results_are_walked_through_by_keyboard_and_counted_aloud(visit: Visit, axe: str) -> None:
    visit.sign_in(ANN)
    visit.type("kettle descaled")
    visit.until("document.getElementById('count').textContent === '3 documents'")
    assert visit.browser.evaluate("document.getElementById('count').role") == "status"

    def at() -> int | str:
        return visit.browser.evaluate(
            "((one, all) => all.includes(one) ? all.indexOf(one) : one.id)"
            "(document.activeElement, [...document.querySelectorAll('.result h2 a')])"
        )

    def pressed(*keys: str) -> list[int | str]:
        found: list[int | str] = []
        for key in keys:
            visit.browser.press(key) if len(key) > 1 else visit.browser.evaluate(
                f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"
            )
            found.append(at())
        return found

    assert pressed("ArrowUp", "j", "ArrowDown", "j", "ArrowDown", "ArrowDown") == ["q", "q", 0, 1, 2, 2]
    assert pressed("k", "ArrowUp", "ArrowUp", "ArrowDown", "/") == [1, 0, "q", 0, "q"]
    visit.browser.evaluate("document.querySelector('.keys').open = true")
    assert violations(visit.browser, axe) == []
    saved(visit.browser, "keys")
    visit.type("zebra unheard")
    visit.until("document.getElementById('count').textContent.startsWith('Nothing found')")


def test_more_results_are_added_once_and_to_their_own_list(visit: Visit) -> None:
    for number in range(25):
        visit.running.site.add(f"Marble {number}", [f"Marbles are counted on Mondays in room {number}."], [ANN])
    visit.sign_in(ANN, "/?q=marbles")
    visit.until("!!document.querySelector('#more')")
    visit.browser.evaluate(
        "(original => { window.held = []; window.fetch = async (path, options) => {"
        " if (String(path).includes('cursor=')) await new Promise((resolve) => held.push(resolve));"
        " return original(path, options); }; })(fetch)"
    )
    visit.browser.evaluate(
        "(original => { window.read = 0; Response.prototype.text = async function () {"
        " const text = await original.call(this);"
        " read += this.url.includes('cursor=');"
        " return text; }; })(Response.prototype.text)"
    )
    visit.browser.evaluate("(one => (one.click(), one.click()))(document.querySelector('#more'))")
    assert visit.browser.evaluate("held.length") == 1
    visit.browser.evaluate("held.pop()()")
    visit.until("document.querySelectorAll('.result').length === 20")
    assert len(set(visit.titles())) == 20
    visit.browser.evaluate("document.querySelector('#more').click()")
    visit.type("kettle descaled")
    visit.until("document.querySelectorAll('.result').length === 3")
    visit.browser.evaluate("held.pop()()")
    visit.until("read === 2")
    assert len(visit.titles()) == 3
    visit.type("marbles")
    visit.until("document.querySelectorAll('.result').length === 10")
    visit.browser.evaluate("document.querySelector('#more').click()")
    visit.browser.evaluate(
        "(original => { window.fetch = async (path, options) => {"
        " if (String(path).includes('q=kettle')) await new Promise((resolve) => (window.go = resolve));"
        " return original(path, options); }; })(fetch)"
    )
    visit.type("kettle descaled")
    visit.until("location.search.includes('kettle')")
    visit.browser.evaluate("held.pop()()")
    visit.until("read === 3")
    assert visit.browser.evaluate("[document.querySelectorAll('.result').length, history.state.added ?? 0]") == [10, 0]
    visit.browser.evaluate("go()")
    visit.until("document.querySelectorAll('.result').length === 3")


def test_a_question_is_deleted_from_the_history(visit: Visit, axe: str) -> None:
    for query in (QUESTION, "Who leaks?"):
        visit.running.request("POST", "/api/ask", ANN, json={"query": query})
    visit.running.settle()
    visit.sign_in(ANN, "/history?q=KETTLE")
    assert visit.browser.evaluate("document.querySelectorAll('.rows li').length") == 1
    saved(visit.browser, "history-search")
    visit.browser.evaluate("document.querySelector('.rows button').click()")
    assert QUESTION in visit.browser.evaluate("document.querySelector('dialog').textContent")
    assert violations(visit.browser, axe) == []
    visit.browser.evaluate("document.querySelector('dialog .danger').click()")
    visit.until("document.getElementById('status').textContent === 'Deleted.'")
    assert visit.running.site.sql("SELECT question FROM answers") == [("Who leaks?",)]


def test_the_next_entry_has_the_focus_once_one_is_deleted(visit: Visit) -> None:
    for query in (QUESTION, "Who leaks?"):
        visit.running.request("POST", "/api/ask", ANN, json={"query": query})
    visit.running.settle()
    visit.sign_in(ANN, "/history")
    visit.browser.evaluate("document.querySelector('.rows button').focus()")
    visit.browser.evaluate("document.activeElement.click()")
    visit.browser.evaluate("document.querySelector('dialog .danger').click()")
    visit.until("document.querySelectorAll('.rows li').length === 1")
    assert visit.browser.evaluate("document.activeElement.matches('.rows li button')")


def test_a_search_is_saved_opened_and_removed(visit: Visit, axe: str) -> None:
    visit.sign_in(ANN)
    visit.type("kettle")
    visit.until("document.querySelectorAll('.result').length === 3")
    visit.browser.evaluate(
        "(() => { const one = document.querySelector('select[name=source]'); one.value = 'slack';"
        " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    visit.until("document.querySelectorAll('.result').length === 1")
    saved(visit.browser, "save-search")
    visit.browser.evaluate("document.querySelector('[data-save]').click()")
    visit.until("document.querySelector('[data-save]').textContent === 'Saved'")
    visit.sign_in(ANN)
    assert violations(visit.browser, axe) == []
    saved(visit.browser, "saved-searches")
    visit.browser.click("#saved a")
    visit.until("document.querySelectorAll('.result').length === 1")
    assert visit.browser.url.endswith("/?q=kettle&source=slack")
    visit.sign_in(ANN)
    visit.browser.evaluate("document.querySelector('#saved button').click()")
    visit.until("document.querySelector('dialog[open] .danger') !== null")
    visit.browser.evaluate("document.querySelector('dialog .danger').click()")
    visit.until("document.querySelectorAll('#saved li').length === 0")
    assert visit.running.site.sql("SELECT count(*) FROM saved_searches") == [(0,)]


def test_documents_run_nothing(visit: Visit) -> None:
    """Of a page, a table, and a Slack message: title, path, people, channel, tags, headings, links and text."""
    everywhere: dict[str, Any] = {
        "owner": HOSTILE, "author": HOSTILE, "path": HOSTILE, "tags": {HOSTILE: HOSTILE, "topic": HOSTILE},
        "url": "javascript:document.title='hacked'",
    }  # fmt: skip
    texts = [
        f"# {HOSTILE}\n\n[descaled](javascript:document.title='hacked') ![{HOSTILE}](x) kettle img\n\n| {HOSTILE} |"
    ]
    visit.running.site.add(f"{HOSTILE} 2", texts, [ANN], places=[{"section_path": [HOSTILE]}], **everywhere)
    visit.running.site.add(f"{HOSTILE} 3", texts, [ANN], source=SourceName.SLACK, source_id="T1/C1/1.2", **everywhere)
    visit.sign_in(ANN)
    visit.type("Hostile kettle descaled img")
    visit.until("[...document.querySelectorAll('.result')].some(one => one.textContent.includes('onerror'))")
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate("[...document.querySelectorAll('.sources button')].at(-1).click()")
    visit.until("!document.getElementById('passage').hidden")
    visit.harmless()
    read = "[...document.querySelectorAll('.result a[href^=\"/documents/\"]')].map(one => one.href)"
    pages = {page for page in visit.browser.evaluate(read) if "chunk=" in page}
    assert len(pages) >= 3
    visit.running.settle()
    (answer_id,) = visit.running.site.sql("SELECT answer_id::text FROM answers LIMIT 1")[0]
    for page in (*pages, f"{visit.running.url}/history", f"{visit.running.url}/answers/{answer_id}"):
        visit.browser.goto(page)
        assert "kettle" in visit.browser.text
        visit.harmless()


def test_failures_are_said_and_can_be_repeated(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.browser.call(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    visit.type("kettle")
    visit.until("document.querySelector('#results [role=alert]')?.textContent.includes('cannot be reached')")
    visit.browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    visit.browser.evaluate("document.querySelector('#results button').click()")
    visit.until("document.querySelectorAll('.result').length > 0")
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if "ERR_INTERNET_DISCONNECTED" not in one]
    visit.running.site.sql("DELETE FROM sessions")
    visit.type("kettle again")
    visit.until("location.pathname === '/sign-in'")
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if "401" not in one]


def test_an_answer_is_copied_with_its_sources(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    clipboard = "navigator.clipboard.writeText = async (text) => { if (window.copied) throw new Error('denied'); window.copied = text; }"
    copy = "[...document.querySelectorAll('button')].find(one => one.textContent === 'Copy')"
    visit.running.settle()
    ((answer_id, answer),) = visit.running.site.sql("SELECT answer_id::text, answer FROM answers")
    for path, said in (("", ".actions [role=status]"), (f"/answers/{answer_id}", "#said")):
        if path:
            visit.browser.goto(visit.running.url + path)
            visit.until(f"!{copy}.hidden")
        visit.browser.evaluate(f"{clipboard}; {copy}.click()")
        visit.until(f"document.querySelector('{said}').textContent === 'Copied.'")
        text = visit.browser.evaluate("copied")
        assert text.startswith(f"{answer}\n\n[1] "), text
        assert "[1] Tea – http" in text
        visit.browser.evaluate(f"{copy}.click()")
        visit.until(f"document.querySelector('{said}').textContent.includes('does not allow')")


def test_sources_count_from_one_in_the_order_of_their_citations(visit: Visit) -> None:
    site = visit.running.site
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.running.settle()
    ((answer_id, titles),) = site.sql(
        "SELECT answer_id::text, (SELECT array_agg((SELECT title FROM documents d WHERE d.doc_id::text = one->>'doc_id')) "
        "FROM jsonb_array_elements(sources) one) FROM answers"
    )
    assert len(titles) == 3
    site.sql(
        "UPDATE answers SET answer = 'Hot [3], `a[3]` [1] and clean [3].', sentences = '[]', sources = "
        "(SELECT jsonb_agg(one || jsonb_build_object('cited', one->>'index' <> '2')) FROM jsonb_array_elements(sources) one)"
    )
    listed = [f"1 {titles[2]}", f"2 {titles[0]}"]
    copy = "[...document.querySelectorAll('button')].find(one => one.textContent === 'Copy')"
    for path, text, sources in (
        ("", ".answer .text", ".answer .sources b"),
        (f"/answers/{answer_id}", "#text", ".sources a"),
    ):
        visit.browser.goto(visit.running.url + path) if path else visit.browser.evaluate("location.reload()")
        visit.until(f"document.querySelectorAll('{text} .cite').length === 3")
        assert visit.browser.evaluate(f"document.querySelector('{text}').textContent") == "Hot 1, a[3] 2 and clean 1."
        assert (
            visit.browser.evaluate(f"[...document.querySelectorAll('{sources}')].map(one => one.textContent)") == listed
        )
        visit.browser.evaluate(
            f"navigator.clipboard.writeText = async (text) => (window.copied = text); {copy}.click()"
        )
        visit.until("!!window.copied")
        first, *links = visit.browser.evaluate("copied").split("\n\n[")
        assert first == "Hot [1], `a[3]` [2] and clean [1]."
        assert [line.split(" – ")[0] for line in links[0].split("\n")] == [
            f"1] {titles[2]}",
            f"[2] {titles[0]}",
        ]


def test_a_list_that_is_quoted_keeps_its_lines(visit: Visit) -> None:
    text = "Bring to the visa office:\n\n- Bring a passport.\n- Bring two photos.\n- Sign the form."
    visit.running.site.add("Visa", [text], [ANN])
    visit.sign_in(ANN)
    visit.type("What do I bring to the visa office?")
    visit.browser.press("Enter")
    visit.answered()
    visit.running.settle()
    ((answer_id,),) = visit.running.site.sql("SELECT answer_id::text FROM answers")
    lines = ["“Bring to the visa office:", "- Bring a passport.", "- Bring two photos.", "- Sign the form.”1"]
    for path, shown in (("", ".answer .text p"), (f"/answers/{answer_id}", "#text p")):
        if path:
            visit.browser.goto(visit.running.url + path)
            visit.until("!!document.querySelector('#text .cite')")
        first = visit.browser.evaluate(f"document.querySelector('{shown}').innerText")
        assert [line.replace(" 1", "1") for line in first.splitlines() if line] == lines
        saved(visit.browser, f"answer-list{'-kept' if path else ''}")
    visit.browser.evaluate("document.querySelector('.cite').click()")
    visit.until("[...document.querySelectorAll('#passage mark')].some(one => one.textContent.includes('two photos'))")


def test_a_question_is_kept_when_the_session_is_over(visit: Visit) -> None:
    visit.sign_in(ANN)
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.running.site.sql("DELETE FROM sessions")
    visit.browser.evaluate("document.querySelector('.follow input').focus()")
    visit.browser.type("And where?")
    visit.browser.press("Enter")
    visit.until("document.querySelector('#signed-out a')?.target === '_blank'")
    visit.until("document.querySelector('.answer .question')?.textContent === 'And where?'")
    saved(visit.browser, "signed-out")
    assert visit.browser.evaluate("getComputedStyle(document.getElementById('signed-out')).position") == "sticky"
    visit.browser.signed_in(visit.running.url, visit.running.site.session(ANN))
    visit.browser.evaluate("document.querySelector('.answer:last-child [role=alert] + button').click()")
    visit.answered(2)
    assert not visit.browser.evaluate("!!document.getElementById('signed-out')")
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if "401" not in one]


@pytest.mark.parametrize("began", ["", 'event: token\\ndata: {"text": "Fri"}\\n\\n'])
def test_a_body_that_breaks_off_is_said_and_can_be_repeated(visit: Visit, began: str) -> None:
    """As if the connection had ended in the middle of results or an answer."""
    visit.sign_in(ANN)
    visit.browser.evaluate(
        "window.whole = window.fetch; window.fetch = async (...given) => { await whole(...given); return new Response(new ReadableStream({"
        f"start(stream) {{ stream.enqueue(new TextEncoder().encode('{began}'));"
        " setTimeout(() => stream.error(new TypeError('gone')), 50); }})); }; 1"
    )
    visit.type(QUESTION)
    visit.until("document.querySelector('#results [role=alert]')?.textContent.includes('broke off')")
    visit.browser.press("Enter")
    visit.until("document.querySelector('#answer [role=alert]')?.textContent.includes('broke off')")
    visit.browser.evaluate("window.fetch = window.whole; document.querySelector('#answer button').click()")
    visit.answered()


def test_an_answer_can_be_stopped_and_ends_after_a_long_silence(visit: Visit, axe: str) -> None:
    visit.sign_in(ANN)
    silent = (
        "window.fetch = (url, options) => String(url) === '/api/ask' ? Promise.resolve(new Response("
        "new ReadableStream({start(stream) {"
        ' stream.enqueue(new TextEncoder().encode(\'event: token\\ndata: {"text": "Fri"}\\n\\n\'));'
        " options.signal.addEventListener('abort', () => stream.error(options.signal.reason)); }}))) : whole(url, options)"
    )
    visit.browser.evaluate(
        "(timeout => window.setTimeout = (act, after) => timeout(act, after >= 60_000 && window.brief ? 300 : after))(window.setTimeout);"
        f"window.whole = window.fetch; {silent}; 1"
    )
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.until("document.querySelector('#answer .text').textContent === 'Fri'")
    visit.browser.settle()
    assert violations(visit.browser, axe) == []
    button = "[...document.querySelectorAll('#answer button')].find(one => one.textContent === '{0}')".format
    visit.browser.evaluate(f"{button('Stop')}.click()")
    visit.until("document.querySelector('#answer .text [role=status]')?.textContent === 'Stopped.'")
    assert visit.browser.evaluate("document.querySelector('#answer .text p').textContent") == "Fri"
    assert visit.browser.evaluate("document.querySelector('#answer').getAttribute('aria-busy')") == "false"
    visit.browser.evaluate(f"window.brief = true; {button('Try again')}.click()")
    visit.until("document.querySelector('#answer [role=alert]')?.textContent === 'No answer has come for a minute.'")
    visit.browser.evaluate(f"window.fetch = window.whole; window.brief = false; {button('Try again')}.click()")
    visit.answered()
    assert not visit.browser.evaluate(f"!!{button('Stop')}")
    visit.browser.evaluate(f"({silent}, document.querySelector('.follow input').focus())")
    visit.browser.type("And the lid?")
    visit.browser.press("Enter")
    visit.until(f"!!{button('Stop')} && !document.querySelector('.follow')")
    visit.browser.evaluate(f"{button('Stop')}.click()")
    visit.until("document.querySelectorAll('.follow input').length === 1")  # the conversation goes on


def test_results_that_are_refused_say_why(visit: Visit, tmp_path: Path) -> None:
    visit.running.site.settings = visit.running.site.settings.model_copy(update={"search_rate_limit": 1})
    with visit.running.site.running() as running, running_browser(tmp_path / "limited") as browser:
        limited = Visit(running, browser)
        limited.sign_in(ANN)
        for text in ("kettle", "kettle descaled"):
            limited.type(text)
            limited.until("document.getElementById('results').getAttribute('aria-busy') === 'false'")
        limited.until("!!document.querySelector('#results [role=alert]')")
        assert "searches a minute" in browser.evaluate("document.querySelector('#results [role=alert]').textContent")


def test_pages_are_accessible(visit: Visit, axe: str) -> None:
    found: dict[str, list[str]] = {}

    def check(name: str) -> None:
        for width, dark in itertools.product((1280, 390), (False, True)):
            visit.browser.look(width=width, dark=dark)
            if broken := violations(visit.browser, axe):
                found[f"{name}, {width}, {'dark' if dark else 'light'}"] = broken
            assert visit.browser.fits(width), f"{name} scrolls sideways"

    visit.browser.goto(visit.running.url + "/")
    check("welcome")
    visit.sign_in(ANN)
    check("start")
    visit.type(QUESTION + " from Slack")
    visit.until("document.querySelectorAll('.result').length > 0")
    check("understood")
    visit.type(QUESTION)
    visit.browser.press("Enter")
    visit.answered()
    visit.browser.evaluate("document.querySelector('.cite').click(); document.querySelector('details').open = true")
    check("answer and passage")
    (answer_id,) = visit.running.site.sql("SELECT answer_id::text FROM answers LIMIT 1")[0]
    for name, path in {
        "kept answer": f"/answers/{answer_id}",
        "history": "/history",
        "missing": "/answers/none",
    }.items():
        visit.browser.goto(visit.running.url + path)
        check(name)
    visit.browser.complaints[:] = [one for one in visit.browser.complaints if "404" not in one]
    assert not found, json.dumps(found, indent=1)


def test_corrections_and_operators_change_what_is_in_the_box(visit: Visit, axe: str, tmp_path: Path) -> None:
    visit.running.site.add(
        "Calibration procedure", ["Every gauge is checked against the reference cell once a month."], [ANN]
    )
    visit.running.site.add("Gauges", ["Gauges are adjusted and verified before each measurement."], [ANN])
    visit.running.site.add(
        "Rent", ["The rent is due in March."], [ANN], source=SourceName.GOOGLE_DRIVE, author="Marta Kowalska-Contreras",
        collection_ids=["year", "contracts"], path="Contracts with suppliers and customers/Contributions 2024/Rent.md",
        folders=[{"id": "contracts", "name": "Contracts with suppliers and customers", "readers": [ANN]},
                 {"id": "year", "name": "Contributions 2024", "readers": [ANN]}],
    )  # fmt: skip
    visit.running.site.add(
        "Talk of contracts", ["The contract is signed."], [ANN], source=SourceName.SLACK, tags={"channel": "contracts"}
    )
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))

    def box() -> str:
        return visit.browser.evaluate("document.getElementById('q').value")

    def pictured(name: str) -> None:
        for width, dark in itertools.product((1280, 390), (False, True)):
            visit.browser.look(width=width, dark=dark)
            assert violations(visit.browser, axe) == []
            assert visit.browser.fits(width)
            visit.browser.screenshot(folder / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        visit.browser.look()

    visit.sign_in(ANN)
    visit.type("calibra")
    visit.until("document.querySelector('.result h2')?.textContent === 'Calibration procedure'")
    visit.type("calibartion procedure")
    visit.until("document.querySelector('#corrected a')?.textContent === 'calibration procedure'")
    assert visit.titles()[0] == "Calibration procedure"
    pictured("corrected")
    visit.browser.evaluate("document.querySelector('#corrected a').click()")
    visit.until("!document.querySelector('#corrected') && document.querySelectorAll('.result').length > 0")
    assert box() == "calibration procedure"
    visit.type("kettle in:files -leaks type:md")
    visit.until("document.querySelectorAll('.chip').length === 3")
    assert "Talk" not in visit.titles()
    pictured("operators")
    visit.browser.evaluate("document.querySelector('.chip[data-kind=source] a').click()")
    visit.until("document.querySelectorAll('.chip').length === 2")
    assert box() == "kettle -leaks type:md"
    visit.type("rent contr")
    visit.until("document.querySelectorAll('.names a').length === 4")
    pictured("names")
    visit.browser.evaluate("document.querySelector('.names a').click()")
    visit.until("document.querySelectorAll('.chip').length === 1 && !document.querySelector('.names')")
    assert (box(), visit.titles()) == ('rent from:"Marta Kowalska-Contreras"', ["Rent"])
    visit.type("verified measurement")
    visit.until("document.querySelectorAll('.weaker > summary').length === 1")
    pictured("folded")
    visit.browser.evaluate("document.querySelector('.weaker > summary').click()")
    assert visit.browser.evaluate("document.querySelector('.weaker .result').checkVisibility()")
