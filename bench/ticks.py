"""Measure what ticks cost by the number of documents: CPU seconds of pipeline, Postgres and vector server, and their memory.

A tick is a sync with its reports and checks. Measured are one without changes, one with ten changed documents, one that refreshes
permission checks, a reconciliation, `concordance status`, an erasure to which nothing is due, and at the end the removal of all
documents, of pushed documents (a feed) and of a file root, with one passage a document. `python -m bench.ticks
[--documents 10000 100000] [--source push files]`. The documents are written directly to the stores (`bench.ticks_fill`), and vectors
are synthetic.

Each measurement runs in a process of its own. CPU is that of its work without imports, and of both servers meanwhile. Memory is the
largest sum of proportional set sizes (PSS) while it ran. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from assets import pipeline
from assets.index.agreement import changed, ledger
from assets.report import Report
from assets.upkeep.erase import erase
from assets.upkeep.reconcile import reconcile
from assets.upkeep.removal import remove
from bench.ingest import without_embedding
from bench.processes import cpu_seconds, family, pss_mb
from bench.search_setup import parts, say
from bench.ticks_fill import ROOT, change, fill
from orchestration.cli.status import status
from resources.core.domain import STAGES, SourceName
from resources.logging import configure
from resources.settings import Settings, load
from resources.stores.postgres import session
from resources.syncs.syncing import open_sync
from sql.upkeep import Checks

SOURCES = {"push": SourceName.PUSH, "files": SourceName.FILES}
CHANGED = 10
SAMPLE_SECONDS = 0.02
MILLION = 1_000_000


def tick(settings: Settings, source: SourceName) -> dict[str, Any]:
    """Sync once, and report and check it as the assets of the source do. Returns the counts of each stage."""
    with without_embedding(), open_sync(settings, source, requested_by="bench") as job:
        done: dict[str, Any] = dict(pipeline.sync(job))
        for stage in STAGES:
            Report(job, stage, job.results[stage]).asset()
        ledger(job.stores, job.partitions)
        if not changed(job.stores, job.started_ns).agrees:
            raise SystemExit("The stores do not agree.")
        Checks(job.stores.connection, source.value).completeness()
    return done


def _idle(settings: Settings, source: SourceName) -> None:
    done = tick(settings, source)
    if done["indexed"]["documents"]:
        raise SystemExit(f"The sync did work although nothing had changed: {done}")


def _changes(settings: Settings, source: SourceName) -> None:
    done = tick(settings, source)
    if done["indexed"]["documents"] != CHANGED:
        raise SystemExit(f"The sync did not index {CHANGED} documents: {done}")


def _refresh(settings: Settings, source: SourceName) -> None:
    with session(settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE partitions SET acl_indexed_at = NULL WHERE source = %s", [source.value])
    tick(settings, source)


def _reconcile(settings: Settings, source: SourceName) -> None:
    report = reconcile(settings, source, apply=False)
    if report.faults():
        raise SystemExit(f"The stores that were filled differ: {report}")


def _status(_settings: Settings, _source: SourceName) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status()


def _erase(settings: Settings, _source: SourceName) -> None:
    report = erase(settings, after=timedelta())
    if report.documents or report.contents or report.lake_rows:
        raise SystemExit(f"Something was due for erasure: {report}")


def _remove(settings: Settings, source: SourceName) -> None:
    with session(settings.postgres_dsn) as connection:
        found = connection.execute("SELECT partition FROM partitions WHERE source = %s", [source.value]).fetchall()
    if not remove(settings, source, [row["partition"] for row in found]):
        raise SystemExit("No document was removed.")


WORK: Mapping[str, Callable[[Settings, SourceName], None]] = {
    "idle": _idle,
    "erase": _erase,
    "changes": _changes,
    "refresh": _refresh,
    "reconcile": _reconcile,
    "status": _status,
    "remove": _remove,
}


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--source", nargs="+", choices=tuple(SOURCES), default=["push", "files"])
    parser.add_argument("--only", nargs="+", choices=tuple(WORK), default=list(WORK))
    parser.add_argument("--run", choices=tuple(WORK), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    configure("error", "bench")
    if arguments.run:
        _measured(arguments.run, SOURCES[arguments.source[0]])
        return
    figures: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in arguments.source}
    for count in arguments.documents:
        for name in arguments.source:
            figures[name][str(count)] = _size(count, name, arguments.only)
    for name in arguments.source:
        _print(name, figures[name])
    print(json.dumps(figures))


def _measured(work: str, source: SourceName) -> None:
    """Do the work in this process and print its own CPU seconds."""
    settings = load()
    with session(settings.postgres_dsn) as connection:
        connection.execute("SELECT 1")
    began = time.process_time()
    WORK[work](settings, source)
    print(time.process_time() - began)


def _size(count: int, name: str, chosen: Sequence[str]) -> dict[str, dict[str, float]]:
    """Fill an installation with documents of one source and return CPU and memory of each measurement."""
    source, found = SOURCES[name], dict[str, dict[str, float]]()
    with parts() as (folder, settings, pids):
        roots = [
            {
                "name": ROOT,
                "url": (folder / "texts").as_uri(),
                "tenant": "bench",
                "dataset": ROOT,
                "permissions": ["public"],
            }
        ]
        environment = {
            **os.environ,
            "CONCORDANCE_HOME": str(settings.home),
            "CONCORDANCE_POSTGRES_PORT": str(settings.postgres_port),
            "CONCORDANCE_QDRANT_URL": str(settings.qdrant_url),
            "CONCORDANCE_FILE_ROOTS": json.dumps(roots),
            "CONCORDANCE_LOG_LEVEL": "error",
        }
        os.environ.update(environment)
        settings = load()
        fill(settings, source, folder, count, lambda: tick(settings, source))
        # The first tick after filling does what happens once, such as the compaction of the lake's tables.
        for work in ["idle", *(one for one in WORK if one in chosen)]:
            if work == "changes":
                change(settings, source, folder, CHANGED)
            found[work] = _run(work, name, pids, environment)
            say(f"{name}, {count:,} documents, {work}: {json.dumps(found[work])}")
    return found


def _run(work: str, name: str, pids: Mapping[str, int], environment: Mapping[str, str]) -> dict[str, float]:
    before = {server: cpu_seconds(pid) for server, pid in pids.items()}
    command = [sys.executable, "-m", "bench.ticks", "--run", work, "--source", name]
    process = subprocess.Popen(command, env=dict(environment), stdout=subprocess.PIPE, text=True)
    peak = 0.0
    own = 0.0
    while process.poll() is None:
        pipeline_mb = sum(map(pss_mb, family(process.pid)))
        own = max(own, pipeline_mb)
        peak = max(peak, pipeline_mb + sum(pss_mb(one) for pid in pids.values() for one in family(pid)))
        time.sleep(SAMPLE_SECONDS)
    said = process.stdout.read() if process.stdout is not None else ""
    if process.returncode:
        raise SystemExit(f"{work} failed: {said}")
    used = {"pipeline": float(said.split()[-1])} | {
        server: cpu_seconds(pid) - before[server] for server, pid in pids.items()
    }
    return {
        "cpu_s": round(sum(used.values()), 3),
        **{f"{server}_s": round(seconds, 3) for server, seconds in used.items()},
        "memory_mb": round(peak),
        "pipeline_mb": round(own),
    }


def _print(name: str, sizes: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Print a table: CPU and memory by size, and how both grow from the smallest to the largest."""
    counts = list(sizes)
    print(f"\n{name}: CPU seconds and peak memory of pipeline, Postgres and vector server")
    print(f"{'':12}" + "".join(f"{int(count):>20,}" for count in counts) + f"{'CPU µs a document':>22}")
    for work in sizes[counts[0]]:
        row = [sizes[count][work] for count in counts]
        cells = "".join(f"{one['cpu_s']:>10.2f} s{one['memory_mb']:>5.0f} MB" for one in row)
        more = int(counts[-1]) - int(counts[0])
        growth = (row[-1]["cpu_s"] - row[0]["cpu_s"]) / more * MILLION if more else 0.0
        print(f"{work:12}{cells}{growth:>22.2f}")


if __name__ == "__main__":
    main()
