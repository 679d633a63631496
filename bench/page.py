"""Measure the search page in headless Chromium: paints, the time from the last key to the first result, and what the page weighs.

`python -m bench.page [--chunks 100000] [--searches 30]`. The installation is that of `bench.search`; the person is signed in by a session
and types one query after another, each for the first time. The time to results includes the pause that the page waits for.
The last line is JSON. Source of the paints: https://www.w3.org/TR/paint-timing/
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.installation import serving
from bench.search_data import EMAIL, SECTIONS, Company, groups
from bench.search_fill import grow
from bench.search_setup import parts, say
from resources.embedding import embedder
from resources.logging import configure
from resources.settings import Settings
from resources.stores.postgres import session
from serving.identity.sign_in.sessions import cookie_name
from tests.fixtures.browser import Browser, running_browser

PROVIDER = '[{"name": "Bench", "issuer": "https://id.example", "client_id": "bench"}]'
TIMING = """new Promise(done => {
  const box = document.getElementById('q'), results = document.getElementById('results');
  box.value = QUERY;
  const began = performance.now();
  new MutationObserver((_, seen) => {
    if (!results.querySelector('.result, .empty')) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  }).observe(results, {childList: true, subtree: true});
  box.dispatchEvent(new Event('input', {bubbles: true}));
})"""
WEIGHT = """performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).map(one =>
  ({name: one.name.split('?')[0].split('/').pop() || 'page', sent: one.encodedBodySize, whole: one.decodedBodySize}))"""


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=30)
    arguments = parser.parse_args()
    with parts() as (_folder, settings, _pids):
        company = Company(embedder(settings))
        grow(settings, company, 0, -(-arguments.chunks // SECTIONS))
        with (
            serving(settings, OIDC_PROVIDERS=PROVIDER) as (port, _),
            tempfile.TemporaryDirectory() as profile,
            running_browser(Path(profile)) as browser,
        ):
            address = f"http://127.0.0.1:{port}/"
            browser.call("Network.setCookie", name=cookie_name(settings), value=_session(settings), url=address)
            figures = _measure(browser, address, company.queries(arguments.searches))
    print(json.dumps({"chunks": arguments.chunks, **figures}))


def _session(settings: Settings) -> str:
    """Begin a session of the benchmark's person, and return its cookie."""
    secret, now = secrets.token_urlsafe(32), datetime.now(UTC)
    with session(settings.postgres_dsn) as connection:
        connection.execute(
            "INSERT INTO sessions (session_id, secret_hash, email, provider, subject, browser, groups, groups_at, refreshed_at,"
            " created_at, seen_at, expires_at) VALUES (%s, %s, %s, 'bench', %s, 'bench', %s, %s, %s, %s, %s, %s)",
            (str(uuid.uuid4()), hashlib.sha256(secret.encode()).hexdigest(), EMAIL, EMAIL, groups(), now, now, now, now,
             now + timedelta(hours=1)),
        )  # fmt: skip
    return secret


def _measure(browser: Browser, address: str, queries: Any) -> dict[str, Any]:
    browser.goto(address)
    weight = browser.evaluate(WEIGHT)
    paints: list[float] = []
    for _ in range(10):
        browser.goto(address)
        paints += browser.evaluate("performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)")
    waits = [browser.evaluate(TIMING.replace("QUERY", json.dumps(query))) for query in queries]
    scripts = [one for one in weight if one["name"].endswith(".js")]
    figures = {
        "first_contentful_paint_ms": _spread(paints),
        "last_key_to_result_ms": _spread(waits),
        "script_bytes": sum(one["whole"] for one in scripts),
        "page_bytes": sum(one["whole"] for one in weight),
        "requests": len(weight),
    }
    for name, value in figures.items():
        say(f"{name}: {value}")
    return figures


def _spread(values: list[float]) -> dict[str, float]:
    return {"p50": round(float(np.percentile(values, 50)), 1), "p95": round(float(np.percentile(values, 95)), 1)}


if __name__ == "__main__":
    main()
