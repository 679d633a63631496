"""The widget in a real browser, on a page of another origin with a strict content policy.

`SCREENSHOTS=FOLDER` saves what a reader sees, on a desktop and a phone, light and dark (`make screenshots`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.servers.processes import free_port
from tests.fixtures.axe import violations
from tests.fixtures.browser import running_browser
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Site
from tests.fixtures.widget import ANSWER, QUESTION, Reader, add, reading

STORED = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"


@pytest.fixture
def reader(site: Site, model_server: ModelServer, tmp_path: Path) -> Iterator[Reader]:
    with running_browser(tmp_path / "profile") as browser, reading(site, model_server, browser) as reader:
        yield reader


def test_a_reader_asks_by_keyboard_sees_the_answer_grow_and_follows_a_citation(
    reader: Reader, model_server: ModelServer
) -> None:
    browser = reader.browser
    assert reader.look("root.querySelector('dialog').open") is False
    assert (
        browser.evaluate("performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/')).length")
        == 0
    )
    browser.press("Tab")
    assert reader.look("root.activeElement.className") == "pill launcher"
    browser.press("Enter")
    reader.wait("root.activeElement?.tagName === 'TEXTAREA'", "the panel opens with the focus in the question")
    reader.look(
        "(window.seen = new Set(), new MutationObserver(() => seen.add(root.querySelector('div[aria-hidden=true]')?.innerText))"
        ".observe(root.querySelector('.log'), {subtree: true, childList: true}))"
    )
    model_server.manner = lambda _: " ".join([ANSWER] * 5)
    reader.ask()
    assert browser.evaluate("seen.size") > 3, browser.evaluate("[...seen]")
    assert reader.text(".answer p").startswith("You have twenty-eight days of paid holiday each calendar year1.")
    assert reader.look("[...root.querySelectorAll('.source strong')].map((one) => one.innerText)") == [
        "Time off",
        "Carry-over",
        "Sick days",
    ]
    assert reader.look("root.querySelectorAll('[aria-hidden=true]:not(svg)').length") == 0  # a screen reader has it all

    lit = "document.querySelector('#carry-over').getAnimations().length"
    assert reader.look(f"(root.querySelectorAll('.cite')[1].click(), {lit})") == 1
    reader.wait(
        "Math.abs(document.querySelector('#carry-over').getBoundingClientRect().top) < 60", "the section is in view"
    )
    assert browser.evaluate("document.querySelector('#sick-days').getAnimations().length") == 0
    assert reader.look("root.querySelector('dialog').open")

    reader.look("root.querySelector('.source').focus()")
    browser.press("Enter")  # by keyboard the focus follows, so that the reader goes on from there
    reader.wait("document.activeElement.id === 'time-off'", "the section has the focus")
    reader.look("root.querySelector('textarea').focus()")
    browser.press("Tab", shift=True)
    assert reader.look("root.activeElement.className") == "source"
    browser.press("Escape")
    reader.wait("!root.querySelector('dialog').open", "Escape closes the panel")
    reader.wait("root.activeElement?.className === 'pill launcher'", "the focus is back on the button")
    assert browser.complaints == []


def test_a_citation_of_another_page_keeps_the_conversation(reader: Reader) -> None:
    """Sites such as Docusaurus change the page without loading it, so where a link leads is known when it is followed."""
    browser = reader.browser
    reader.click(".launcher")
    reader.ask()
    followed = (
        "(() => { let seen; addEventListener('click', (event) => { const { target, rel } = event.composedPath()[0];"
        " seen = [event.defaultPrevented, target, rel]; event.preventDefault(); }, { once: true });"
        " root.querySelector('.cite').click(); return seen; })()"
    )
    on_this_page, elsewhere = True, [False, "_blank", "noopener"]
    assert reader.look(followed)[0] is on_this_page
    browser.evaluate("history.pushState({}, '', '/elsewhere')")
    assert reader.look(followed) == elsewhere
    browser.evaluate("history.pushState({}, '', '/time-off')")
    assert reader.look(followed)[0] is on_this_page
    assert reader.look("root.querySelectorAll('.question').length") == 1


def test_sources_count_from_one_in_the_order_of_their_citations(reader: Reader, model_server: ModelServer) -> None:
    model_server.manner = lambda _: (
        "Call before ten if you are ill [3].\n\nYou have twenty-eight days of paid holiday [1]."
    )
    reader.click(".launcher")
    reader.ask()
    listed = [[number, place] for number, place in (("1", "Sick days"), ("2", "Time off"))]
    shown = "[...root.querySelectorAll('.source')].map((one) => [one.querySelector('b').innerText, one.querySelector('strong').innerText])"
    assert reader.look(shown) == listed
    cites = "[...root.querySelectorAll('.cite')].map((one) => [one.innerText, one.hash.split(':~:')[0]])"
    assert reader.look(cites) == [["1", "#sick-days"], ["2", "#time-off"]]


def test_the_tag_of_the_readme_is_all_that_a_page_needs(reader: Reader) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (tag,) = re.findall(r"^<script .*</script>$", readme, re.MULTILINE)
    page = "<!doctype html><title>A page</title>" + re.sub(r'src="[^"]+"', f'src="{reader.page.script}"', tag)
    reader.page.files["/readme"] = ("text/html; charset=utf-8", page)
    reader.visit("/readme")
    reader.click(".launcher")
    reader.ask()
    assert "twenty-eight days" in reader.text(".answer")


def test_nothing_is_stored_and_nothing_foreign_is_loaded(reader: Reader) -> None:
    reader.click(".launcher")
    reader.ask()
    stored = "[localStorage.length, sessionStorage.length, document.cookie, (await indexedDB.databases()).length]"
    assert reader.browser.evaluate(f"(async () => {stored})()") == [0, 0, "", 0]
    assert reader.browser.cookies() == []
    loaded = reader.browser.evaluate("performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)")
    assert set(loaded) == {reader.page.origin, reader.running.url}
    reader.visit()
    reader.click(".launcher")
    assert reader.look("root.querySelectorAll('.question').length") == 0
    assert reader.browser.complaints == []


def test_ten_selected_words_can_be_asked_about_and_nine_cannot(reader: Reader, model_server: ModelServer) -> None:
    few, about = "!root.querySelector('.few').hidden", "!root.querySelector('.about').hidden"
    reader.select("#nine")
    assert reader.text(".few") == "Select at least ten words"
    assert reader.look(f"[{few}, {about}]") == [True, False]
    reader.select("#ten")
    assert reader.look(f"[{few}, {about}]") == [False, True]
    reader.select("#nine")
    assert reader.look(f"[{few}, {about}]") == [True, False]
    reader.select("#word")  # as by a double click
    assert reader.look(f"[{few}, {about}]") == [False, False]
    reader.select("#ten")
    reader.click(".about")
    assert reader.text(".quoted blockquote") == "Everyone has twenty-eight days of paid holiday each calendar year."
    reader.click(".quoted .icon")
    assert reader.look("root.querySelector('.quoted').hidden")
    reader.select("#nine")
    reader.select("#ten")
    reader.click(".about")
    reader.click(".send")  # a selection needs no words
    reader.wait("root.querySelector('.sources')", "the answer")
    assert reader.text(".question blockquote").startswith("Everyone has")
    assert "What does this mean?" in model_server.prompts[-1].text
    assert reader.browser.complaints == []


def test_a_selection_on_a_page_that_is_not_indexed_can_be_asked_of_all_pages(reader: Reader) -> None:
    reader.visit("/not-indexed")
    reader.select("#ten")
    reader.click(".about")
    reader.ask()
    assert "not indexed yet" in reader.text(".error")
    reader.click(".error button")
    reader.wait("root.querySelector('.sources')", "the answer from all pages")
    link = reader.look("root.querySelectorAll('.source')[1].getAttribute('href')")
    assert link.startswith(f"{reader.page.origin}/time-off#carry-over:~:text=Up%20to%20five")
    assert reader.look("root.querySelectorAll('.source')[1].target") == "_blank"


def test_a_source_on_this_page_is_shown_with_the_sentence_marked(reader: Reader) -> None:
    reader.click(".launcher")
    reader.ask()
    reader.wait("root.querySelector('.sources')", "the answer")
    shown: list[str] = []
    for kind, number in (*((".source", number) for number in range(3)), *((".cite", number) for number in range(4))):
        reader.look(f"root.querySelectorAll('{kind}')[{number}].click()")
        shown.append(reader.browser.evaluate("[...CSS.highlights.get('concordance') ?? []].map(String).join()"))
    quoted = [
        "Everyone has twenty-eight days of paid holiday each calendar year",
        "Up to five unused holidays move to the next year and lapse at the end of March",
        "Call before ten if you are ill",
    ]
    assert shown == [*quoted, *quoted, "After five days we need a note from a doctor"]
    assert reader.browser.complaints == []


def test_failures_are_friendly_and_can_be_tried_again(reader: Reader) -> None:
    browser = reader.browser
    reader.click(".launcher")
    cases = (
        ("Promise.reject(new TypeError('offline'))", "temporarily unavailable"),
        ("new Response('', {status: 503})", "temporarily unavailable"),
        ('new Response(\'event: token\\r\\ndata: {"text": "Half"}\\r\\n\\r\\n\')', "temporarily unavailable"),
        ('new Response(\'event: error\\r\\ndata: {"detail": "x"}\\r\\n\\r\\n\')', "temporarily unavailable"),
        ("new Response('', {status: 429, headers: {'Retry-After': '130'}})", "try again in 3 minutes"),
    )
    for response, said in cases:
        reader.respond(response)
        reader.ask()
        assert said in reader.text(".answer:last-child .error"), response
        assert "Half" not in reader.text(".answer:last-child")
        reader.click(".error button")
        reader.wait("root.querySelector('.answer:last-child .sources')", "the second try is answered")
    used_up = "{status: 429, headers: {'Retry-After': '17100'}}"  # the questions of the day
    finals = (
        ("{status: 403}", "not set up for"),
        ("{status: 404}", "not set up for"),
        ("{status: 400}", "cannot be read"),
    )
    for answer, said in (*finals, (used_up, "come back in 5 hours")):
        reader.respond(f"new Response('', {answer})")
        reader.ask()
        assert said in reader.text(".answer:last-child .error")
        assert reader.look("root.querySelector('.answer:last-child .error button')") is None
    reader.respond("new Response('', {status: 401})")  # as when the token has expired: a new one is fetched
    reader.ask()
    assert reader.text(".answer:last-child .sources")
    assert browser.complaints == []


def test_signs_of_life_keep_an_answer_and_a_second_try_ends_the_running_one(reader: Reader) -> None:
    """They go on for longer than a silence may, which is two seconds here."""
    reader.click(".launcher")
    reader.browser.evaluate(
        "(timeout => window.setTimeout = (act, after) => timeout(act, after >= 60_000 ? 2000 : after))(window.setTimeout);"
        "window.signals = []; window.genuine = window.fetch; window.fetch = async (url, options) => {"
        " if (!String(url).endsWith('/ask')) return genuine(url, options);"
        " signals.push(options.signal);"
        " if (window.refused) return new Response('', {status: 503});"
        " return new Response(new ReadableStream({async start(answer) {"
        "  let whole; genuine(url, options).then((one) => one.arrayBuffer()).then((one) => (whole = one));"
        "  for (let beat = 0; beat < 15 || !whole; beat++) {"
        "   answer.enqueue(new TextEncoder().encode(': \\r\\n\\r\\n')); await new Promise((go) => window.setTimeout(go, 200)); }"
        "  answer.enqueue(new Uint8Array(whole)); answer.close(); }}));"
        "}; 1"
    )
    reader.ask()
    assert reader.text(".answer .sources")
    reader.browser.evaluate("window.refused = true")
    reader.ask()
    reader.browser.evaluate("window.refused = false; window.signals = []")
    reader.look("root.querySelector('textarea').focus()")
    reader.browser.type(QUESTION)
    reader.browser.press("Enter")
    reader.wait("window.signals.length === 1", "an answer is written")
    reader.click(".error button")
    assert reader.look("signals.map((one) => one.aborted)")[:1] == [True]
    reader.wait("root.querySelector('.send').ariaLabel === 'Send'", "the second try is answered")


def test_a_page_that_may_not_show_it_says_so(reader: Reader) -> None:
    """The host name of the page's address is another than the widget's declaration has."""
    reader.browser.goto(reader.page.origin.replace("localhost", "127.0.0.1"))
    reader.wait("!root.querySelector('.launcher').hidden", "the widget's button")
    reader.click(".launcher")
    reader.ask()
    assert "not set up for http://127.0.0.1:" in reader.text(".answer .error")
    assert reader.look("root.querySelector('.error button')") is None


def test_a_page_that_may_no_longer_show_it_says_so(site: Site, model_server: ModelServer, tmp_path: Path) -> None:
    port = free_port()
    with running_browser(tmp_path / "profile") as browser:
        with reading(site, model_server, browser, port=port) as reader:
            reader.click(".launcher")
            reader.ask()
            elsewhere = site.settings.widgets[0].model_copy(update={"origins": ("https://docs.acme.com",)})
        site.settings = site.settings.model_copy(update={"widgets": (elsewhere,)})
        with site.running(port=port):
            reader.ask()
            assert "not set up for http://localhost:" in reader.text(".answer:last-child .error")


def test_an_answer_can_be_stopped_and_a_conversation_begun_again(reader: Reader, model_server: ModelServer) -> None:
    reader.click(".launcher")
    model_server.hold()
    reader.look("root.querySelector('textarea').focus()")
    reader.browser.type(QUESTION)
    reader.browser.press("Enter")
    model_server.wait_for(1)
    assert reader.look("root.querySelector('.send').ariaLabel") == "Stop"
    reader.click(".send")
    reader.wait("root.querySelector('.send').ariaLabel === 'Send'", "it is stopped")
    assert reader.text(".answer") == "Stopped."
    model_server.release()
    reader.ask()
    reader.ask("And for part-time staff?")
    assert QUESTION in model_server.prompts[-1].text  # the conversation goes on
    reader.click("[aria-label='New conversation']")
    assert reader.look("[...root.querySelectorAll('.chip')].map((one) => one.innerText)") == [
        "How many holidays do I have?",
        "May I work from another country?",
    ]
    model_server.manner = lambda _: "No data found."
    reader.click(".chip")
    reader.wait("root.querySelector('.answer')?.innerText.startsWith('I found no answer')", "an honest answer")
    assert QUESTION not in model_server.prompts[-1].text
    assert reader.browser.complaints == []


def test_a_stored_script_runs_nowhere(reader: Reader, model_server: ModelServer) -> None:
    passage = (STORED, [STORED], f"The canteen serves soup on Mondays {STORED}.")
    add(reader.running.site, reader.page.origin, f"Canteen {STORED}", [passage])
    model_server.manner = lambda _: (
        f"The canteen serves soup on Mondays {STORED} [1]. **{STORED}** `{STORED}` [x](javascript:ran=1)"
    )
    reader.click(".launcher")
    reader.ask("What does the canteen serve on Mondays?")
    assert reader.text(".source strong") == STORED
    reader.click(".source")
    assert reader.look("root.querySelectorAll('img, script, [onerror], a[href^=javascript]').length") == 0
    assert reader.browser.evaluate("window.ran === undefined")
    assert reader.browser.complaints == []


def test_on_a_phone_it_is_a_sheet_that_a_citation_closes(reader: Reader) -> None:
    reader.browser.look(width=390)
    reader.visit()
    reader.click(".launcher")
    assert reader.look("root.querySelector('dialog').matches(':modal')")
    reader.settle()
    box = reader.look("root.querySelector('dialog').getBoundingClientRect().toJSON()")
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 390, 900)
    reader.ask()
    reader.look("root.querySelectorAll('.cite')[1].click()")
    assert not reader.look("root.querySelector('dialog').open")
    reader.wait(
        "Math.abs(document.querySelector('#carry-over').getBoundingClientRect().top) < 60", "the section is in view"
    )
    assert reader.browser.fits(390)


def test_the_sheet_of_a_phone_keeps_above_the_keyboard(reader: Reader) -> None:
    """A keyboard covers a page without a change of its size; the answer's beginning was moved out of sight."""
    reader.browser.look(width=390)
    reader.visit()
    reader.click(".launcher")
    reader.settle()
    box = "(({y, height}) => [y, height])(root.querySelector('dialog').getBoundingClientRect())"
    seen = "Object.defineProperties(visualViewport, {height: {configurable: true, value: 420}, offsetTop: {configurable: true, value: 60}})"
    reader.browser.evaluate(f"{seen}; visualViewport.dispatchEvent(new Event('resize'))")
    assert reader.look(box) == [60, 420]
    reader.browser.evaluate("Object.defineProperty(visualViewport, 'scale', {configurable: true, value: 2}), 0")
    reader.browser.evaluate("visualViewport.dispatchEvent(new Event('resize'))")
    assert reader.look(box) == [0, 900]  # who zooms in moves about in it
    reader.browser.evaluate(
        "delete visualViewport.height, delete visualViewport.offsetTop, delete visualViewport.scale"
    )
    reader.browser.evaluate("visualViewport.dispatchEvent(new Event('resize'))")
    assert reader.look(box) == [0, 900]


def test_long_words_leave_the_buttons_in_reach(reader: Reader) -> None:
    title = "Donaudampfschifffahrtsgesellschaftshandbuch"
    reader.browser.look(width=320)
    reader.page.tag = f'data-title="{title}" data-label="{title} befragen"'
    reader.visit()
    right = "root.querySelector('{}').getBoundingClientRect().{}".format
    assert reader.look(right(".launcher", "left")) >= 0
    reader.click(".launcher")
    reader.settle()
    assert reader.look(right("[aria-label=Close]", "right")) <= 320


def test_quotes_have_a_paragraph_each_and_arabic_is_read_from_the_right(reader: Reader) -> None:
    answer = "“يحق لكل موظف ثمانية وعشرون يوما.” [1]\n“Nobody is asked.” [1]"
    sources = [{"number": 1, "title": "Time off", "section_path": [], "snippet": "", "link": "https://acme.example/"}]
    done = {
        "answer": answer,
        "found": True,
        "quoted": True,
        "cited": [1],
        "quotes": [],
        "unsupported": [],
        "closest": [],
    }
    events = f"event: sources\ndata: {json.dumps({'sources': sources})}\n\nevent: done\ndata: {json.dumps(done)}\n\n"
    reader.click(".launcher")
    reader.respond(f"Promise.resolve(new Response({json.dumps(events)}, {{status: 200}}))")
    reader.ask()
    ends = (
        "[...root.querySelectorAll('.answer > p:not(.note)')].map((one) => [1, one.firstChild.length - 1].map((at) => {"
        "const range = document.createRange(); range.setStart(one.firstChild, at); range.setEnd(one.firstChild, at + 1);"
        "return range.getBoundingClientRect().left; })).map(([first, last]) => first < last)"
    )
    assert reader.look(ends) == [False, True]


def test_nothing_moves_for_readers_who_prefer_that(reader: Reader) -> None:
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    reader.browser.call("Emulation.setEmulatedMedia", features=features)
    reader.click(".launcher")
    assert reader.look("root.querySelector('dialog').getAnimations({subtree: true}).length") == 0
    reader.ask()
    top = "document.querySelector('#carry-over').getBoundingClientRect().top"
    assert abs(reader.look(f"(root.querySelectorAll('.cite')[1].click(), {top})")) < 60  # at once
    shades = "document.querySelector('#carry-over').getAnimations()[0].effect.getKeyframes().map((one) => one.backgroundColor)"
    assert len(set(reader.browser.evaluate(shades))) == 1


def test_it_is_accessible_in_every_state_and_scheme(reader: Reader, axe: str) -> None:
    folder = os.environ.get("SCREENSHOTS")

    def check(state: str) -> None:
        reader.settle()
        assert violations(reader.browser, axe) == [], state
        if folder:
            reader.browser.screenshot(Path(folder) / f"widget-{state.replace(' ', '-')}.png", whole=False)

    for width, name in ((1280, "desktop"), (390, "phone")):
        for dark in (False, True):
            reader.browser.look(width=width, dark=dark)
            kind = f"{name} {'dark' if dark else 'light'}"
            reader.visit()
            reader.select("#ten")
            check(f"{kind} selected")
            reader.select("#nine")
            check(f"{kind} nine selected")
            reader.select("#ten")
            reader.click(".about")
            check(f"{kind} asking")
            reader.click(".quoted .icon")
            reader.ask()
            check(f"{kind} answered")
            reader.respond("new Response('', {status: 503})")
            reader.ask()
            check(f"{kind} failed")
