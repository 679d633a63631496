"""The widget in a real Docusaurus site, built from npm with the tag in its configuration."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from resources.servers.processes import free_port
from resources.settings import FileRoot, Widget
from resources.sources.books import page_url
from tests.fixtures import loopback
from tests.fixtures.browser import Browser, running_browser
from tests.fixtures.npm import installed
from tests.fixtures.serving import Site

pytestmark = pytest.mark.slow
CONFIGURATION = Path(__file__).parents[1] / "fixtures" / "docusaurus" / "docusaurus.config.js"
PACKAGES = {
    "@docusaurus/core": "3.10.2",
    "@docusaurus/preset-classic": "3.10.2",
    "react": "19.3.1",
    "react-dom": "19.3.1",
}
HANDBOOK = Path(__file__).parents[2] / "examples" / "sample_company" / "handbook"
BUILD_SECONDS = 600
WIDGET = "document.querySelector('concordance-widget').shadowRoot"


def built(service: str, origin: str, home: Path) -> Path:
    """Build the sample company's handbook as a site whose pages load the widget from `service`."""
    place = installed("docusaurus", **PACKAGES)
    source = place / "site"
    source.mkdir(exist_ok=True)
    shutil.copy(CONFIGURATION, source)
    (source / "package.json").write_text(
        '{"name": "handbook", "private": true}'
    )  # of modules, webpack makes a broken build
    site = {"url": origin, "script": f"{service}/widget.js", "docs": str(HANDBOOK), "out": str(home / "build")}
    (source / "site.json").write_text(json.dumps(site))
    command = ["node", "node_modules/@docusaurus/core/bin/docusaurus.mjs", "build", "site", "--out-dir", site["out"]]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return home / "build"


class Files(loopback.Handler, http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder."""


def ask(browser: Browser, question: str) -> None:
    browser.evaluate("document.querySelector('concordance-widget').open()")
    browser.type(question)
    browser.press("Enter")
    browser.wait(lambda _: browser.evaluate(f"!!{WIDGET}.querySelector('.sources')"), "the answer")


def test_a_docusaurus_site_has_the_widget_by_one_entry_in_its_configuration(site: Site, tmp_path: Path) -> None:
    port = free_port()
    origin = f"http://localhost:{port}"
    base_url = f"{origin}/docs"
    root = FileRoot(name="handbook", url="file:///", kind="book", tenant="acme", dataset="handbook", base_url=base_url)
    widget = Widget(name="handbook", origins=(origin,), collection="handbook")
    site.settings = site.settings.model_copy(update={"widgets": (widget,), "file_roots": (root,)})
    path = "working-here/time-off.md"
    site.add(
        "Time off",
        ["Up to six unused days move to the next year and must be taken by the end of April."],
        ["public"],
        source_id=f"handbook/{path}",
        path=path,
        partition="handbook",
        collection_ids=["handbook/working-here", "handbook"],
        url=page_url(base_url, path),
        places=[{"anchor": "carrying-days-over", "section_path": ["Time off", "Carrying days over"]}],
    )
    with site.running() as running, running_browser(tmp_path / "profile") as browser:
        folder = built(running.url, origin, tmp_path)
        with loopback.serving(functools.partial(Files, directory=str(folder)), "localhost", port):
            browser.look()
            browser.goto(page_url(base_url, path))
            browser.wait(lambda _: browser.evaluate("!!document.querySelector('concordance-widget')"), "the widget")
            ask(browser, "How many unused days move to the next year?")
            lit = "document.querySelector('#carrying-days-over').getAnimations().length"
            assert browser.evaluate(f"({WIDGET}.querySelector('.cite').click(), {lit})") == 1

            scheme = f"getComputedStyle({WIDGET}.querySelector('dialog')).backgroundColor"
            light = browser.evaluate(scheme)
            browser.evaluate("document.documentElement.setAttribute('data-theme', 'dark')")
            assert browser.evaluate(scheme) != light  # it follows the site's own switch

            browser.evaluate(
                "document.querySelector('.pagination-nav__link, .menu__link:not(.menu__link--active)').click()"
            )
            shown = "!!document.querySelector('#carrying-days-over')"
            browser.wait(lambda _: not browser.evaluate(shown), "the next page, without a load")
            assert "time-off" not in browser.url
            assert browser.evaluate(f"{WIDGET}.querySelectorAll('.question').length") == 1  # the conversation goes on
            href = browser.evaluate(f"{WIDGET}.querySelector('.source').getAttribute('href')")
            assert href.startswith(f"{base_url}/working-here/time-off#carrying-days-over")
            assert browser.evaluate(f"{WIDGET}.querySelector('.source').target") == "_blank"
            browser.evaluate("history.back()")
            browser.wait(lambda _: browser.evaluate(shown), "the page again")
            assert browser.evaluate(f"({WIDGET}.querySelector('.cite').click(), {lit})") == 1
            assert browser.complaints == []
