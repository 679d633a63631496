"""Measure first syncs by the number of documents: documents a minute, and the peak memory of the whole set and of each process.

`python -m bench.first_sync [--documents 50000 200000]`. Each size is a new installation with all services, whose files are synced by a
process of its own as a run does, with an embedder that answers at once. Each file is one passage. Memory is the proportional set size
(PSS), sampled every second; the peaks of the processes need not be at the same moment. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from assets import pipeline
from bench.ingest import without_embedding
from bench.installation import running_set, temporary_folder
from bench.processes import cpu_seconds, family, pss_mb
from resources.core.domain import SourceName
from resources.logging import configure
from resources.settings import load
from resources.syncs.syncing import open_sync

SAMPLE_SECONDS = 1.0
PER_FOLDER = 1000
SYNC = "sync"
"""Name of the process that syncs; its parsers count to it."""


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    configure("error", "bench")
    if arguments.run:
        _sync()
        return
    figures = {str(count): _size(count) for count in arguments.documents}
    for count, found in figures.items():
        print(
            f"{int(count):>10,} documents: {found['documents_per_min']:>7,} a minute, {found['cpu_ms_a_document']} ms of CPU a document,"
            f" set {found['set_mb']:,} MB: {', '.join(f'{name} {size:,}' for name, size in found['processes_mb'].items())}"
        )
    print(json.dumps(figures))


def _sync() -> None:
    """Sync in this process and print how many documents were indexed, and the seconds."""
    began = time.perf_counter()
    with without_embedding(), open_sync(load(_env_file=None), SourceName.FILES, requested_by="bench") as job:
        done = pipeline.sync(job)
    print(json.dumps([done["indexed"]["documents"], time.perf_counter() - began]))


def _size(count: int) -> dict[str, Any]:
    with temporary_folder() as folder:
        _write(folder / "texts", count)
        root = {
            "name": "texts",
            "url": (folder / "texts").as_uri(),
            "tenant": "bench",
            "dataset": "texts",
            "permissions": ["public"],
        }
        with running_set(folder, LOG_LEVEL="error", SYNC_MINUTES="60", FILE_ROOTS=json.dumps([root])):
            return _measured(count)


def _write(folder: Path, count: int) -> None:
    for number in range(count):
        target = folder / f"{number // PER_FOLDER:04}" / f"note-{number:07}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            f"# Note {number}\n\nThe parcel {number} was weighed at the depot before it went on by rail. Its crate bears the mark"
            f" {number * 7919 % 100_003}, and the carrier signed for it at the third gate of the northern yard.\n"
        )


def _measured(count: int) -> dict[str, Any]:
    """Sync in another process, and return its rate and what all processes took meanwhile."""
    own = os.getpid()
    before = cpu_seconds(own)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.first_sync", "--run"], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    peaks: Counter[str] = Counter()
    whole = 0.0
    while process.poll() is None:
        now = _memory(own, process.pid)
        whole = max(whole, sum(now.values()))
        for name, size in now.items():
            peaks[name] = max(peaks[name], round(size))
        time.sleep(SAMPLE_SECONDS)
    said = process.stdout.read() if process.stdout is not None else ""
    if process.returncode:
        raise SystemExit(f"The sync failed: {said}")
    documents, seconds = json.loads(said.splitlines()[-1])
    if documents != count:
        raise SystemExit(f"The sync indexed {documents} documents, not {count}.")
    found = {
        "documents_per_min": round(count / seconds * 60),
        "seconds": round(seconds, 1),
        "cpu_ms_a_document": round((cpu_seconds(own) - before) / count * 1000, 2),
        "set_mb": round(whole),
        "processes_mb": dict(peaks.most_common()),
    }
    print(f"… {count:,} documents: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


def _memory(own: int, sync: int) -> Mapping[str, float]:
    """Return the memory of each service with its children, and of the process that syncs; this process measures and does not count."""
    sizes: dict[str, float] = {}
    for child in psutil.Process(own).children():
        name = SYNC if child.pid == sync else _name(child)
        sizes[name] = sizes.get(name, 0.0) + sum(map(pss_mb, family(child.pid)))
    return sizes


def _name(process: psutil.Process) -> str:
    """Return the module or program that a service runs."""
    with suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        if "-m" in words[:-1]:
            return words[words.index("-m") + 1]
        return Path(words[0]).name.rstrip(":") if words else process.name()
    return "ended"


if __name__ == "__main__":
    main()
