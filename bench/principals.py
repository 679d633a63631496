"""Measure what a search and listings cost by the number of the caller's principals: processor time, latency, bytes sent to the index.

`python -m bench.principals [--chunks 20000] [--searches 200]`. Every document of the search benchmark's company gets one reader more,
of as many groups as there are documents, so that a caller may be in thousands of groups each of which can read something. Callers:
50 principals; the same with 4,950 groups that no document names; 5,000 principals, each of which some document names, and which
together read as many documents as the first. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench import search_load
from bench.installation import serving
from bench.search_data import EMAIL, OWN_GROUPS, READABLE, SECTIONS, Company, Document, groups
from bench.search_fill import grow
from bench.search_load import Job
from bench.search_setup import parts
from resources.core.bm25 import encode_query
from resources.core.domain import Access
from resources.embedding import embedder
from resources.logging import configure
from resources.people.membership import Membership
from resources.settings import Settings
from resources.stores.postgres import session
from resources.stores.qdrant_search import batch_body
from serving.identity.tokens import mint
from serving.search.retrieval.plan import queries
from serving.search.retrieval.query import search_query
from sql.people import People

MANY = 5_000
TOP_K = 10
WARM = 40
LISTINGS = ("/api/collections", "/api/documents", "/api/sources")
TIMES = 5
"""Requests for each listing, of which the fastest counts."""
WIDE = "wide@example.org"
RARE = "rare@example.org"


class WideCompany(Company):
    """The company, each document of which also names one of `wide` groups that no other caller is in."""

    wide = 1

    def document(self, number: int) -> Document:
        """Return a document with one reader more."""
        found = super().document(number)
        return found._replace(readers=[*found.readers, f"group:{_wide(number % self.wide)}"])


def _wide(number: int) -> str:
    return f"wide-{number:06}@example.org"


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=200)
    arguments = parser.parse_args()
    documents = -(-arguments.chunks // SECTIONS)
    figures: dict[str, Any] = {"chunks": arguments.chunks, "callers": {}}
    with parts() as (folder, settings, pids):
        company = WideCompany(embedder(settings))
        # as many wide groups as let `MANY` of them read the same share as the first caller's
        company.wide = min(documents, round(MANY / READABLE))
        grow(settings, company, 0, documents)
        callers = {
            EMAIL: [],
            RARE: [*groups(), *(f"absent-{number:05}@example.org" for number in range(MANY - OWN_GROUPS - 3))],
            WIDE: [_wide(number) for number in range(MANY - 3)],
        }
        callers[EMAIL] = groups()
        _enrol(settings, callers)
        asked = company.queries(WARM + arguments.searches)
        with serving(settings, LIMITS__SEARCH_CACHE_SECONDS="0") as (port, pid):
            for name, email in (("50 principals", EMAIL), ("5,000, few occur", RARE), ("5,000, all occur", WIDE)):
                one = _measure(settings, email, port, folder, {"serving": pid, **pids}, asked)
                one["listings_ms"] = _listings(settings, email, port)
                one["index_request_bytes"] = _request_bytes(settings, email, callers[email])
                figures["callers"][name] = one
                _print(name, one, figures["callers"]["50 principals"])
    print(json.dumps(figures))


def _enrol(settings: Settings, callers: Mapping[str, Sequence[str]]) -> None:
    now = datetime.now(UTC)
    rows = [Membership(email, f"group:{group}", None, None) for email, listed in callers.items() for group in listed]
    with session(settings.postgres_dsn, autocommit=True) as connection:
        people = People(connection, "scim")
        people.save_memberships(rows=sorted(rows, key=lambda one: (one.principal, one.email)))
        people.date(read_at=now + timedelta(days=1))
        connection.execute("ANALYZE")


def _measure(
    settings: Settings, email: str, port: int, folder: Path, running: Mapping[str, int], asked: Sequence[str]
) -> dict[str, Any]:
    token = mint(settings, email, [], False, timedelta(hours=1))
    job = Job(
        port=port,
        path="/api/rag/search",
        bodies=str(folder / "bodies.jsonl"),
        headers={"Authorization": f"Bearer {token}"},
        must_hold=search_load.SEARCHED,
    )
    _ask(job, asked[:WARM])
    before = _cpu(running)
    found = _ask(job, asked[WARM:])
    count = len(found["milliseconds"])
    spent = {name: round((cpu - before[name]) / count * 1000, 2) for name, cpu in _cpu(running).items()}
    return {
        "p50_ms": round(float(np.percentile(found["milliseconds"], 50)), 2),
        "p95_ms": round(float(np.percentile(found["milliseconds"], 95)), 2),
        "cpu_ms": spent,
        "cpu_ms_total": round(sum(spent.values()), 2),
    }


def _listings(settings: Settings, email: str, port: int) -> dict[str, float]:
    """Return milliseconds for each listing, or 0 if there is none: the service is too busy to answer in time."""
    headers = {"Authorization": f"Bearer {mint(settings, email, [], False, timedelta(hours=1))}"}
    found: dict[str, float] = {}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        for path in LISTINGS:
            answers = [client.get(path) for _ in range(TIMES)]
            answered = [one.elapsed.total_seconds() * 1000 for one in answers if one.status_code == 200]
            found[path] = round(min(answered, default=0), 1)
    return found


def _ask(job: Job, asked: Sequence[str]) -> dict[str, Any]:
    Path(job.bodies).write_text("\n".join(json.dumps({"query": query, "top_k": TOP_K}) for query in asked))
    found = search_load.run(job)
    if found["wrong"]:
        raise SystemExit(f"Unexpected response: {found['wrong'][0]}")
    return found


def _cpu(running: Mapping[str, int]) -> dict[str, float]:
    """Return seconds of processor time by service; for Postgres including its live connections."""
    return {
        name: sum(
            one.cpu_times().user + one.cpu_times().system
            for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
        )
        for name, pid in running.items()
    }


def _request_bytes(settings: Settings, email: str, listed: Sequence[str]) -> int:
    principals = frozenset({email, "public", "domain:example.org", *(f"group:{one}" for one in listed)})
    query = search_query("a question", Access(email=email, principals=principals), settings, limit=TOP_K)
    return len(batch_body(queries(query, [0.1] * 384, encode_query("a question"), with_payload=False, by_number=True)))


def _print(name: str, one: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    spent = "  ".join(f"{service} {ms}" for service, ms in one["cpu_ms"].items())
    ratio = one["cpu_ms_total"] / first["cpu_ms_total"]
    print(
        f"{name:20} p50 {one['p50_ms']} ms  p95 {one['p95_ms']} ms  CPU {one['cpu_ms_total']} ms ({ratio:.2f} times; {spent})"
    )
    listings = "  ".join(f"{path} {ms} ms" for path, ms in one["listings_ms"].items())
    print(f"{'':20} {listings}")
    print(f"{'':20} request to the index: {one['index_request_bytes']:,} bytes", flush=True)


if __name__ == "__main__":
    main()
