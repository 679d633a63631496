"""The first two minutes: start with the sample company, open the printed address, sign in with a click, ask, open a citation."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures import pictures
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.installed import Installed
from tests.fixtures.pictures import saved

QUESTION, SAID = "Where do we gather in case of fire?", "assembly point A"


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    one = Installed(tmp_path / "home")
    yield one
    one.run("down")


@pytest.mark.slow
def test_from_nothing_to_a_citation(installed: Installed, tmp_path: Path, show: Callable[[str], None]) -> None:
    began = time.monotonic()
    started = installed.run("up", "--sample", "--detach")
    assert started.returncode == 0, started.stderr
    address = re.search(r"Open (\S+) in a browser", started.stdout)
    assert address is not None, started.stdout
    up = time.monotonic()
    with running_browser(tmp_path / "profile") as browser:
        browser.look()
        browser.goto(address[1])
        browser.click('main a[href="/sign-in"]')
        saved(browser, "sign-in")
        browser.click('button[name="person"]')
        browser.wait(lambda page: page.evaluate("document.activeElement.id") == "q", "the search box")
        saved(browser, "start")
        while not (found := _asked(browser)):  # the first sync is under way
            installed.status()
            browser.goto(address[1])
        answered = time.monotonic()
        saved(browser, "answer")
        browser.evaluate("document.querySelector('.answer .cite').click()")
        browser.wait(lambda page: page.evaluate("!document.getElementById('passage').hidden"), "the passage")
        saved(browser, "passage")
        browser.click('#passage a[href^="/documents/"]')
        browser.wait(lambda page: page.evaluate("!!document.querySelector('mark')"), "the marked passage")
        saved(browser, "document")
        opened = time.monotonic()
        for name in ("history", "upload", "me"):
            browser.goto(f"{address[1]}/{name}")
            saved(browser, name)
        browser.forget()
        browser.goto(f"{address[1]}/sign-in")
        browser.click('button[name="person"][value="helen"]')
        for name, path in {"sources": "sources", "set-up": "sources/slack/set-up", "admin": "admin"}.items():
            browser.goto(f"{address[1]}/{path}")
            assert "Sources Admin Dagster" in " ".join(
                browser.evaluate("document.querySelector('nav').innerText").split()
            )
            saved(browser, name)
        browser.complaints[:] = [one for one in browser.complaints if "favicon" not in one]
        assert browser.complaints == []
    repaired = installed.run("reconcile", "files", "--apply")
    assert repaired.returncode == 0, repaired.stderr
    assert "55 documents. Orphans: none. Missing: none." in repaired.stdout
    assert "No deletions are pending." in installed.run("prune", "list").stderr
    show(
        f"started after {up - began:.0f} s, answered after {answered - began:.0f} s, citation open after {opened - began:.0f} s\n{found}"
    )


def _asked(browser: Browser) -> str:
    """Ask, and return the answer; empty if its document is not found yet."""
    browser.type(QUESTION)
    browser.press("Enter")
    browser.wait(lambda page: page.evaluate("!!document.querySelector('.answer .actions')"), "an answer")
    answer = browser.evaluate("document.querySelector('.answer .text').textContent")
    reading = pictures.wanted() and browser.evaluate(
        "document.querySelector('main').innerText.includes('still being read')"
    )
    return answer if SAID in answer and not reading else ""
