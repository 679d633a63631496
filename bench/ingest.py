"""Measure ingest: documents per minute by stage and overall, compared with the embedder's rate in the same run.

Also measures a sync of 50,000 unchanged documents, and the time from an upload until it is searchable through all services.
`python -m bench.ingest [--documents 2000] [--unchanged 50000] [--no-upload]`. All data is in a temporary folder. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from assets import pipeline
from assets.index import targets
from assets.index.agreement import agree, totals
from orchestration.supervision.supervisor import start as start_set
from resources.core.domain import STAGES, SourceName
from resources.logging import configure
from resources.servers.processes import free_port
from resources.settings import BUNDLED_MODEL, Settings, load
from resources.stores.clients import Stores
from resources.syncing import SyncJob, open_sync
from serving.access.auth import mint

WORDS_A_DOCUMENT = 400
SEED = 7


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--unchanged", type=int, default=50_000)
    parser.add_argument("--no-upload", action="store_true")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"documents": arguments.documents}
    folder = Path(tempfile.mkdtemp(prefix="concordance-bench-"))
    folder.chmod(0o711)
    try:
        settings = _settings(folder)
        supervisor = start_set(settings)
        try:
            if not arguments.no_upload:
                figures["upload_to_searchable_s"] = _upload(settings)
            _fresh(settings, folder / "texts", arguments.documents, figures)
            _without_embedding(settings, folder / "quick", arguments.documents, figures)
            _nothing_changed(settings, folder / "many", arguments.unchanged, figures)
            figures["peak_rss_mb"] = _peak()
        finally:
            supervisor.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))


def _settings(folder: Path) -> Settings:
    ports = {f"CONCORDANCE_{name}_PORT": str(free_port()) for name in ("HTTP", "QDRANT", "POSTGRES", "DAGSTER")}
    os.environ.update(ports | {"CONCORDANCE_HOME": str(folder / "home"), "CONCORDANCE_LOG_LEVEL": "warning"})
    return load()


def _with_root(settings: Settings, name: str, folder: Path) -> Settings:
    root = {"name": name, "url": folder.as_uri(), "tenant": "bench", "dataset": name, "permissions": ["public"]}
    return Settings(**(settings.model_dump() | {"file_roots": [root]}))


def _write(folder: Path, documents: int, seed: int) -> None:
    """Write documents of about 400 words, drawn from the sample company by Zipf's law so that tokens resemble prose."""
    rng = np.random.default_rng(seed)
    spell = random.Random(seed)
    vocabulary = _vocabulary()
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


def _vocabulary() -> list[str]:
    """Return the distinct words of the sample company's texts, in a fixed order."""
    texts = Path(__file__).resolve().parents[1] / "examples"
    words = {
        word for file in sorted(texts.rglob("*.md")) for word in re.findall(r"[a-z]{2,}", file.read_text().lower())
    }
    return sorted(words)


def _run(settings: Settings, *, seeded: bool = False) -> tuple[SyncJob, dict[str, float], dict[str, Any]]:
    """Sync once in this process and return the run, seconds by stage and the counts of each stage."""
    seconds: dict[str, float] = {}
    with without_embedding(seeded), open_sync(settings, SourceName.FILES, requested_by="bench") as job:
        done: dict[str, Any] = {}
        for stage in STAGES:
            started = time.perf_counter()
            done[stage] = job.run(stage, partial(pipeline.WORK[stage], job)).counts
            seconds[stage] = time.perf_counter() - started
        if not agree(totals(job.stores)):
            sys.exit(f"The stores do not agree: {totals(job.stores)}")
    return job, seconds, done


@contextmanager
def without_embedding(seeded: bool = True) -> Generator[None]:
    """Make the stages use synthetic vectors instead of the model."""
    real = targets.embedder_of
    if seeded:
        targets.embedder_of = lambda *_: Seeded()  # type: ignore[assignment,return-value]
    try:
        yield
    finally:
        targets.embedder_of = real


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
    job, seconds, done = _run(settings)
    whole = sum(seconds.values())
    chunks = done["chunked"]["chunks"]
    figures |= {
        "documents_per_min": round(documents / whole * 60),
        "chunks": chunks,
        "chunks_per_s": round(chunks / whole, 1),
        "embedder_chunks_per_s": round(_embedder_rate(settings, job.stores), 1),
        "stage_seconds": {stage: round(took, 2) for stage, took in seconds.items()},
        "stage_documents_per_min": {stage: round(documents / took * 60) for stage, took in seconds.items()},
    }
    figures["share_of_embedder_rate"] = round(figures["chunks_per_s"] / figures["embedder_chunks_per_s"], 3)
    _say("fresh", figures)


def _embedder_rate(settings: Settings, stores: Stores) -> float:
    """Return the rate of the embedder alone on the same texts."""
    from resources.embedding import embedder

    texts = stores.lake.scan("chunked").select("text").head(2000).collect()["text"].to_list()
    model = embedder(settings)
    started = time.perf_counter()
    for start in range(0, len(texts), settings.embedding_batch * 4):
        model.embed_counted(texts[start : start + settings.embedding_batch * 4])
    return len(texts) / (time.perf_counter() - started)


def _without_embedding(settings: Settings, folder: Path, documents: int, figures: dict[str, Any]) -> None:
    _write(folder, documents, SEED + 1)
    _, seconds, _ = _run(_with_root(settings, "quick", folder), seeded=True)
    whole = sum(seconds.values())
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
    _, seconds, done = _run(settings, seeded=True)
    if done["indexed"]["documents"] or done["raw"]["fetched"]:
        sys.exit(f"The sync did work although nothing had changed: {done}")
    figures["nothing_changed_s"] = round(sum(seconds.values()), 2)
    figures["nothing_changed_stage_seconds"] = {stage: round(took, 2) for stage, took in seconds.items()}
    _say("nothing changed", figures)


def _upload(settings: Settings) -> float:
    """Return the seconds from upload to search result, through HTTP, Dagster and both stores; the median of three."""
    token = mint(settings, "bench@example.org")
    took: list[float] = []
    with httpx.Client(base_url=settings.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for number in range(3):
            word = f"quixotropolis{number}"
            text = f"# Note {number}\n\nThe password of the old lighthouse is {word}, said the keeper twice.\n".encode()
            started = time.perf_counter()
            client.post("/api/upload", files={"file": (f"note-{number}.md", text, "text/markdown")}).raise_for_status()
            while True:
                found = client.post("/api/rag/search", json={"query": word, "mode": "keyword"})
                if found.status_code == 200 and found.json()["results"]:
                    break
                if time.perf_counter() - started > 120:
                    sys.exit("The upload was not found within two minutes.")
                time.sleep(1.0)
            took.append(time.perf_counter() - started)
    print("upload to searchable, s:", [round(value, 2) for value in took], file=sys.stderr, flush=True)
    return round(sorted(took)[1], 2)


def _peak() -> dict[str, int]:
    """Return the current memory of this process, which ran the stages, and of the services, in MB."""
    import resource

    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    children = {child.pid: child for child in psutil.Process().children(recursive=True)}
    return {"pipeline": own, "set": sum(child.memory_info().rss for child in children.values()) // 1_000_000}


def _say(what: str, figures: dict[str, Any]) -> None:
    print(f"{what}: {json.dumps(figures)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
