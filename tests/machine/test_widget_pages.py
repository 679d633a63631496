"""The widget where pages change without being loaded, and in other browsers: Firefox, and a Chromium from before `light-dark()`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.chromium import old_chromium
from tests.fixtures.firefox import Firefox, running_firefox
from tests.fixtures.llm import ModelServer
from tests.fixtures.npm import installed
from tests.fixtures.serving import Site
from tests.fixtures.widget import QUESTION, reading

NEXT = """(async () => {
  const next = document.body.cloneNode(true), page = Number(location.hash.slice(5)) + 1;
  next.querySelector('h1').textContent = `Page ${page}`;
  const swap = () => { history.pushState({}, '', `#page${page}`); document.body.replaceWith(next); };
  if (!document.startViewTransition) return swap();
  await document.startViewTransition(swap).finished;
})()"""
"""Source: https://github.com/withastro/astro/blob/main/packages/astro/src/transitions/swap-functions.ts. The copy has the widget's tag
within, as that of Turbo's cache has."""
TURBO = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><link rel="icon" href="/icon.svg">
<script src="/turbo.js"></script>
<script src="{script}" data-widget="handbook" async></script></head>
<body><h1>{title}</h1><p><a href="/{next}">Next</a></p></body></html>"""
PACKAGES = {"@hotwired/turbo": "8.0.23"}


@contextmanager
def running(name: str, profile: Path) -> Iterator[Browser | Firefox]:
    if name == "firefox":
        with running_firefox(profile) as firefox:
            yield firefox
    else:
        with running_browser(profile, old_chromium() if name == "old chromium" else None) as chromium:
            yield chromium


@pytest.mark.parametrize("name", ["chromium", "old chromium", "firefox"])
def test_the_field_grows_with_the_question(name: str, site: Site, model_server: ModelServer, tmp_path: Path) -> None:
    with running(name, tmp_path / "profile") as browser, reading(site, model_server, browser) as reader:
        reader.click(".launcher")
        height = "root.querySelector('textarea').clientHeight"
        line = reader.look(height)
        reader.look("root.querySelector('textarea').focus()")
        browser.type("How many holidays do I have? " * 4)
        reader.wait(f"{height} > {line}", "more lines")
        browser.press("Enter")
        reader.wait(f"{height} === {line}", "one line")


@pytest.mark.parametrize("name", ["chromium", "old chromium", "firefox"])
def test_a_conversation_goes_on_while_the_page_replaces_its_body(
    name: str, site: Site, model_server: ModelServer, tmp_path: Path
) -> None:
    with running(name, tmp_path / "profile") as browser, reading(site, model_server, browser) as reader:
        reader.click(".launcher")
        reader.ask()
        for page in range(1, 4):
            browser.evaluate("window.kept = document.querySelector('concordance-widget')")
            browser.evaluate(NEXT)
            assert browser.evaluate("document.querySelector('h1').textContent") == f"Page {page}"
            assert browser.evaluate(
                "[...document.querySelectorAll('concordance-widget')].map((one) => one === kept)"
            ) == [True]
            assert reader.look("root.querySelector('dialog').open")
            assert "twenty-eight days" in reader.text(".answer")
        reader.ask("And for part-time staff?")
        assert QUESTION in model_server.prompts[-1].text
        reader.select("#ten")
        assert not reader.look("root.querySelector('.about').hidden")
        if folder := os.environ.get("SCREENSHOTS"):
            browser.screenshot(Path(folder) / f"widget-{name.replace(' ', '-')}.png", whole=False)
        assert browser.complaints == []


def test_turbo_visits_three_pages_and_goes_back_with_one_widget(
    site: Site, model_server: ModelServer, tmp_path: Path
) -> None:
    turbo = installed("turbo", **PACKAGES) / "node_modules/@hotwired/turbo/dist/turbo.es2017-umd.js"
    with running_browser(tmp_path / "profile") as browser, reading(site, model_server, browser) as reader:
        reader.page.files["/turbo.js"] = ("text/javascript", turbo.read_text(encoding="utf-8"))
        for number in range(4):
            text = TURBO.format(title=f"Page {number}", next=f"page-{number + 1}", script=reader.page.script)
            reader.page.files[f"/page-{number}"] = ("text/html; charset=utf-8", text)
        reader.page.policy = ""
        reader.visit("/page-0")
        reader.click(".launcher")
        reader.ask()
        browser.evaluate("window.loaded = 'once'")
        for number in (1, 2, 3, 2):
            browser.evaluate(
                "history.back()" if number < 3 and browser.title == "Page 3" else "document.querySelector('a').click()"
            )
            browser.wait(lambda _, title=f"Page {number}": browser.text.startswith(title), f"page {number}")
            reader.wait("root.querySelector('dialog').open", "the panel")
            assert browser.evaluate("[document.querySelectorAll('concordance-widget').length, window.loaded]") == [
                1,
                "once",
            ]
            assert "twenty-eight days" in reader.text(".answer")
        reader.ask("And for part-time staff?")
        assert QUESTION in model_server.prompts[-1].text


def test_a_browser_without_light_dark_follows_the_schemes_of_reader_and_page(
    site: Site, model_server: ModelServer, tmp_path: Path
) -> None:
    with (
        running_browser(tmp_path / "profile", old_chromium()) as browser,
        reading(site, model_server, browser) as reader,
    ):
        assert not browser.evaluate("CSS.supports('color', 'light-dark(#000, #fff)')")
        light, dark = "rgb(255, 255, 255)", "rgb(26, 28, 34)"
        background = "getComputedStyle(root.querySelector('dialog')).backgroundColor"
        reader.click(".launcher")
        assert reader.look(background) == light
        browser.look(dark=True)
        reader.wait(f"{background} === '{dark}'", "the reader's scheme")
        browser.evaluate("document.documentElement.style.colorScheme = 'light'")
        reader.wait(f"{background} === '{light}'", "the page's scheme")
        browser.look()
        browser.evaluate("document.documentElement.style.colorScheme = 'dark'")
        reader.wait(f"{background} === '{dark}'", "the page's other scheme")
        box = reader.look("root.querySelector('dialog').getBoundingClientRect().toJSON()")
        assert (box["width"], box["height"]) == (420, 640)
