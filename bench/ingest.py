"""Measure ingest: documents per minute by stage and overall, compared with the embedder's rate in the same run.

Also measures a sync of 50,000 unchanged documents, and the time from an upload until it is searchable through all services, alone and
beside a text of 5 MB. `python -m bench.ingest [--documents 2000] [--unchanged 50000] [--no-upload] [--compare]`. All data is in a temporary
folder. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from assets import pipeline
from assets.index.agreement import changed
from bench.ingest_uploads import beside_large_file, upload_to_searchable, vocabulary_of_samples
from bench.installation import running_set, temporary_folder
from resources import embedding
from resources.core.domain import STAGES, SourceName
from resources.logging import configure
from resources.settings import BUNDLED_MODEL, Settings
from resources.stores.clients import Stores
from resources.stores.postgres import session
from resources.syncs.syncing import SyncJob, open_sync

WORDS_A_DOCUMENT = 400
SEED = 7
RATE_CHUNKS = 2000


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--unchanged", type=int, default=50_000)
    parser.add_argument("--no-upload", action="store_true")
    parser.add_argument("--compare", action="store_true", help="also sync as many documents stage after stage")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"documents": arguments.documents}
    with temporary_folder() as folder, running_set(folder, LOG_LEVEL="warning") as settings:
        if not arguments.no_upload:
            figures["upload_to_searchable_s"] = upload_to_searchable(settings)
            figures |= beside_large_file(settings)
            _say("uploads", figures)
        _fresh(settings, folder / "texts", arguments.documents, figures)
        if arguments.compare:
            _stage_after_stage(settings, folder / "other", arguments.documents, figures)
        _without_embedding(settings, folder / "quick", arguments.documents, figures)
        _nothing_changed(settings, folder / "many", arguments.unchanged, figures)
        figures["peak_rss_mb"] = _peak()
    print(json.dumps(figures))


def _with_root(settings: Settings, name: str, folder: Path) -> Settings:
    root = {"name": name, "url": folder.as_uri(), "tenant": "bench", "dataset": name, "permissions": ["public"]}
    return Settings.model_validate(settings.model_dump() | {"file_roots": [root]})


def _write(folder: Path, documents: int, seed: int) -> None:
    """Write documents of about 400 words, drawn from the sample company by Zipf's law so that tokens resemble prose."""
    rng = np.random.default_rng(seed)
    spell = random.Random(seed)
    vocabulary = vocabulary_of_samples()
    spell.shuffle(vocabulary)
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    weights /= weights.sum()
    for number in range(documents):
        words = [vocabulary[index] for index in rng.choice(len(vocabulary), WORDS_A_DOCUMENT, p=weights)]
        parts = [f"# Report {number}\n"]
        for start in range(0, len(words), 200):
            sentences = [
                " ".join(words[at : min(at + 16, start + 200)]).capitalize() + "."
                for at in range(start, start + 200, 16)
            ]
            parts.append(f"\n## Part {start // 200 + 1}\n\n{' '.join(sentences)}\n")
        target = folder / f"{number // 1000:03}" / f"report-{number:06}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(parts))


def _run(
    settings: Settings, *, seeded: bool = False, overlapped: bool = False
) -> tuple[SyncJob, dict[str, float], dict[str, Any]]:
    """Sync once in this process and return the run, seconds (`all` and by stage) and the counts of each stage."""
    seconds: dict[str, float] = {}
    with without_embedding(seeded), open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        started = time.perf_counter()
        done: dict[str, Any] = {}
        if overlapped:
            done = dict(pipeline.sync(job))
        else:
            for stage in STAGES:
                began = time.perf_counter()
                done[stage] = job.run(stage, partial(pipeline.WORK[stage], job)).counts
                seconds[stage] = time.perf_counter() - began
        seconds["all"] = time.perf_counter() - started
        if not (found := changed(job.stores, 0)).agrees:
            sys.exit(f"The stores do not agree: {found}")
    return job, seconds, done


@contextmanager
def without_embedding(seeded: bool = True) -> Generator[None]:
    """Make the stages use synthetic vectors instead of the model, in a new installation as in one that has an index."""
    real = embedding.embedder
    if seeded:
        embedding.embedder = lambda _: Seeded()  # type: ignore[assignment,return-value]
    try:
        yield
    finally:
        embedding.embedder = real


class Seeded:
    """Embedder with synthetic vectors under the model's name, to measure ingest without the cost of embedding."""

    model = BUNDLED_MODEL
    dimensions = 384
    window = 256
    price_per_million = 0.0

    def embed_counted(self, texts: list[str]) -> tuple[Any, int]:
        """Return one vector per text, seeded by the text's hash."""
        seed = int.from_bytes(hashlib.sha256(texts[0].encode()).digest()[:8])
        rows = np.random.default_rng(seed).standard_normal((len(texts), self.dimensions), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows, sum(len(text) // 5 for text in texts)


def _fresh(settings: Settings, folder: Path, documents: int, figures: dict[str, Any]) -> None:
    _write(folder, documents, SEED)
    settings = _with_root(settings, "texts", folder)
    from resources.embedding import embedder

    embedder(settings).embed_counted(["warm up"])
    used = _cpu_seconds()
    with _first_results(settings, figures):
        job, seconds, done = _run(settings, overlapped=True)
    used = _cpu_seconds() - used
    whole = seconds.pop("all")
    chunks = done["chunked"]["chunks"]
    figures |= {
        "documents_per_min": round(documents / whole * 60),
        "chunks": chunks,
        "chunks_per_s": round(chunks / whole, 1),
    }
    alone = _cpu_seconds()
    figures["embedder_chunks_per_s"] = round(_embedder_rate(settings, job.stores), 1)
    figures["cpu_ms_per_chunk"] = round(used / chunks * 1000, 2)
    figures["embedder_cpu_ms_per_chunk"] = round((_cpu_seconds() - alone) / min(chunks, RATE_CHUNKS) * 1000, 2)
    figures["share_of_embedder_rate"] = round(figures["chunks_per_s"] / figures["embedder_chunks_per_s"], 3)
    _say("fresh", figures)


def _embedder_rate(settings: Settings, stores: Stores) -> float:
    """Return the rate of the embedder alone on the same texts."""
    from resources.embedding import embedder

    texts = stores.lake.scan("chunked").select("text").head(RATE_CHUNKS).collect()["text"].to_list()
    model = embedder(settings)
    started = time.perf_counter()
    for start in range(0, len(texts), settings.embedding_batch * 4):
        model.embed_counted(texts[start : start + settings.embedding_batch * 4])
    return len(texts) / (time.perf_counter() - started)


@contextmanager
def _first_results(settings: Settings, figures: dict[str, Any]) -> Generator[None]:
    """Record after how many seconds the first documents of the block's sync are searchable."""
    started, ended = time.perf_counter(), threading.Event()

    def watch() -> None:
        with session(settings.postgres_dsn, autocommit=True) as connection:
            query = "SELECT 1 FROM active_entries AS e JOIN documents AS d USING (doc_id) WHERE d.source = 'files' AND e.content <> ''"
            while not connection.execute(f"{query} LIMIT 1").fetchone():
                if ended.wait(0.2):
                    return
            figures["first_results_s"] = round(time.perf_counter() - started, 1)
            _say("first results", figures)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _stage_after_stage(settings: Settings, folder: Path, documents: int, figures: dict[str, Any]) -> None:
    _write(folder, documents, SEED + 3)
    used = _cpu_seconds()
    job, seconds, done = _run(_with_root(settings, "other", folder))
    used = _cpu_seconds() - used
    chunks, whole = done["chunked"]["chunks"], seconds.pop("all")
    figures["stage_after_stage"] = {
        "chunks_per_s": round(chunks / whole, 1),
        "share_of_embedder_rate": round(chunks / whole / _embedder_rate(settings, job.stores), 3),
        "cpu_ms_per_chunk": round(used / chunks * 1000, 2),
        "stage_seconds": {stage: round(took, 2) for stage, took in seconds.items()},
        "stage_documents_per_min": {stage: round(documents / took * 60) for stage, took in seconds.items()},
    }
    _say("stage after stage", figures)


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and the processes that it started, including those that have ended."""
    used = os.times()
    total = used.user + used.system + used.children_user + used.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _without_embedding(settings: Settings, folder: Path, documents: int, figures: dict[str, Any]) -> None:
    _write(folder, documents, SEED + 1)
    _, seconds, _ = _run(_with_root(settings, "quick", folder), seeded=True)
    whole = seconds.pop("all")
    figures["documents_per_min_without_embedding"] = round(documents / whole * 60)
    figures["stage_seconds_without_embedding"] = {stage: round(took, 2) for stage, took in seconds.items()}
    _say("without embedding", figures)


def _nothing_changed(settings: Settings, folder: Path, documents: int, figures: dict[str, Any]) -> None:
    if not documents:
        return
    started = time.perf_counter()
    _write(folder, documents, SEED + 2)
    settings = _with_root(settings, "many", folder)
    _, seconds, _ = _run(settings, seeded=True)
    figures["unchanged_documents"] = documents
    figures["unchanged_setup_s"] = round(time.perf_counter() - started, 1)
    figures["unchanged_setup_stage_seconds"] = {stage: round(took, 2) for stage, took in seconds.items()}
    _, seconds, done = _run(settings, seeded=True, overlapped=True)
    if done["indexed"]["documents"] or done["raw"]["fetched"]:
        sys.exit(f"The sync did work although nothing had changed: {done}")
    figures["nothing_changed_s"] = round(seconds.pop("all"), 2)
    _say("nothing changed", figures)


def _peak() -> dict[str, int]:
    """Return the current memory of this process, which ran the stages, and of the services, in MB."""
    import resource

    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    total = 0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += child.memory_info().rss
    return {"pipeline": own, "set": total // 1_000_000}


def _say(what: str, figures: dict[str, Any]) -> None:
    print(f"{what}: {json.dumps(figures)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
