"""Measure the latency of `POST /api/ask` excluding the language model, complete and streamed, with a fake model on the loopback.

`python -m bench.answer [--rounds 4]` indexes the sample company into embedded services in a temporary folder, serves it in a
separate process, and asks its 50 answerable questions as users who may read the answers, without caches. The fake model measures the
model's time itself, so the round trip to the model counts as ours. Plain searches in the same run show how fast the machine is at the
moment. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import numpy as np
import psutil

from assets import pipeline
from bench.installation import servers, serving, temporary_folder
from orchestration.demo import sample
from resources.core.domain import SourceName
from resources.logging import configure
from resources.settings import FileRoot, Settings
from resources.syncs.syncing import open_sync
from serving.identity.tokens import mint
from tests.fixtures.llm import ModelServer

AIM_MS = 100


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="how often each question is asked, complete and streamed")
    arguments = parser.parse_args()
    with indexed() as settings:
        figures = _measure(settings, arguments.rounds)
    print(json.dumps(figures))


@contextmanager
def indexed(roots: tuple[FileRoot, ...] | None = None, **more: Any) -> Generator[Settings]:
    """Yield settings of embedded services that contain the files of these roots, by default the sample company's."""
    with temporary_folder() as folder, servers(folder, **more) as (plain, _):
        settings = plain.model_copy(update={"file_roots": roots or sample.roots()})
        with open_sync(settings, SourceName.FILES, requested_by="bench") as run:
            pipeline.sync(run)
        yield settings


def _measure(settings: Settings, rounds: int) -> dict[str, Any]:
    people = sample.people()
    questions = [one for one in (*sample.questions(), *sample.questions(more=True)) if one.source_id]
    asked = [(people[one.may[0]], one.question) for one in questions]
    tokens = {one.id: mint(settings, one.email, one.groups, False, _HOUR) for one in people.values()}
    with (
        ModelServer() as model,
        serving(
            settings,
            LLM_MODEL="stand-in",
            LLM_BASE_URL=model.url,
            LIMITS__SEARCH_CACHE_SECONDS="0",
            LIMITS__ANSWER_CACHE_SECONDS="0",
        ) as (port, pid),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        timed: dict[str, list[float]] = {"whole": [], "streamed": [], "first_event": [], "model": [], "search": []}
        for person, question in asked[:10]:
            _whole(http, model, tokens[person.id], question)
        random.Random(7).shuffle(asked)
        found = 0
        for _ in range(rounds):
            for person, question in asked:
                ms, own, answer = _whole(http, model, tokens[person.id], question)
                found += answer["found"]
                timed["whole"].append(ms)
                timed["model"].append(own)
                ms, first = _streamed(http, model, tokens[person.id], question)
                timed["streamed"].append(ms)
                timed["first_event"].append(first)
                began = time.perf_counter()
                http.post("/api/rag/search", headers=_headers(tokens[person.id]), json={"query": question})
                timed["search"].append((time.perf_counter() - began) * 1000)
        memory = psutil.Process(pid).memory_info().rss / 2**20
    figures: dict[str, Any] = {
        "answers": len(timed["whole"]),
        "found": found,
        "p50_ms": _percentile(timed["whole"], 50),
        "p90_ms": _percentile(timed["whole"], 90),
        "p99_ms": _percentile(timed["whole"], 99),
        "streamed_p90_ms": _percentile(timed["streamed"], 90),
        "first_event_p90_ms": _percentile(timed["first_event"], 90),
        "search_p50_ms": _percentile(timed["search"], 50),
        "search_p90_ms": _percentile(timed["search"], 90),
        "model_p50_ms": _percentile(timed["model"], 50),
        "aim_p90_ms": AIM_MS,
        "rss_mb": round(memory),
    }
    for name, value in figures.items():
        print(f"{name:20} {value}")
    return figures


_HOUR = timedelta(hours=1)


def _percentile(values: list[float], share: float) -> float:
    return round(float(np.percentile(values, share)), 1)


def _headers(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def _whole(http: httpx.Client, model: ModelServer, token: str, question: str) -> tuple[float, float, dict[str, Any]]:
    """Return milliseconds without the model, milliseconds of the model, and the answer."""
    before, began = model.spent, time.perf_counter()
    response = http.post("/api/ask", headers=_headers(token), json={"query": question})
    ms = (time.perf_counter() - began) * 1000
    response.raise_for_status()
    own = (model.spent - before) * 1000
    return ms - own, own, response.json()


def _streamed(http: httpx.Client, model: ModelServer, token: str, question: str) -> tuple[float, float]:
    """Return milliseconds of the whole stream without the model, and milliseconds to the first event."""
    before, began, first = model.spent, time.perf_counter(), 0.0
    headers = _headers(token, Accept="text/event-stream")
    with http.stream("POST", "/api/ask", headers=headers, json={"query": question}) as response:
        response.raise_for_status()
        for _ in response.iter_raw():
            first = first or (time.perf_counter() - began) * 1000
    return (time.perf_counter() - began - (model.spent - before)) * 1000, first


if __name__ == "__main__":
    main()
