"""Measure searches end to end, and compare them with the vector server alone and two alternative libraries on the same data.

Reports p50/p95/p99 with one client, searches per second with eight, the time of each step, and memory.
`python -m bench.search [--chunks 10000 50000 100000] [--workers 1] [--seconds 20] [--no-peers]`. The last line is JSON. A synthetic company
(`bench/search_data.py`) is written by the pipeline's own writers to real services in a temporary folder, which grows from size to size;
the vectors of its chunks are synthetic. Searches go to the HTTP service as a user with 50 principals who may read 30 % of the
documents: query embedded by the bundled model, hybrid, ten results, permission recheck, citations. Settings are the defaults except
the rate limit and, for comparison with a library in one process, one serving process instead of up to two; with `--workers 1 2` each
size is measured with both. Every query is sent once for each count, so that nothing comes from the cache. The load generator runs on
the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench import search_load
from bench.installation import ROOT, environment, serving
from bench.search_data import EMAIL, SECTIONS, Company, groups
from bench.search_fill import grow
from bench.search_load import Job
from bench.search_setup import check, export, parts, prepare, say
from orchestration.supervision.environment import ALLOCATOR
from resources import keys
from resources.embedding import embedder
from resources.logging import configure
from resources.settings import Settings
from serving.identity.tokens import mint, verify
from tests.fixtures.vector import VectorProcess

PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
TOP_K = 10
PEERS = ("lancedb", "llamaindex")
PEERS_UP_TO = 100_000
PEER_SECONDS = 15
PEER_LIMIT_SECONDS = 240
"""Time limit of a peer, including loading; one that takes longer is skipped at that size and at larger ones."""
ALONE = 500
WARM, SINGLE, LEGS, MANY = 50, 500, 200, 8000
AIMS = {"p95_ms": 25, "searches_per_s": 100}


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("warning", "bench")
    os.environ.update(ALLOCATOR)  # as the supervisor does for the services
    # Stopped by SIGTERM or from a script's background, it still stops the processes that it started.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 50_000, 100_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="numbers of serving processes to measure")
    parser.add_argument("--seconds", type=float, default=20, help="duration of the load with eight clients")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    began = time.monotonic()
    figures: dict[str, Any] = {"cpus": os.cpu_count(), "aims_at_100000": AIMS, "sizes": {}}
    with parts() as (folder, settings, pids):
        model = embedder(settings)
        company = Company(model)
        figures["company"] = company.figures
        left_out: dict[str, str] = dict.fromkeys(PEERS, "--no-peers") if arguments.no_peers else {}
        documents = 0
        for size in sorted(arguments.chunks):
            wanted = -(-size // SECTIONS)
            setup = grow(settings, company, documents, wanted - documents)
            documents = wanted
            first, *more = arguments.workers
            one = _measure(settings, company, folder, pids, size, arguments.seconds, first)
            one["setup_s"] = setup
            if size > PEERS_UP_TO:
                left_out |= dict.fromkeys(PEERS, f"measured up to {PEERS_UP_TO:,} chunks")
            one["peers"] = _peers(folder, company, documents, left_out)
            figures["sizes"][str(size)] = one
            _print(size, one)
            for workers in more:
                others = _measure(settings, company, folder, pids, size, arguments.seconds, workers)
                others |= {"setup_s": setup, "peers": {}}
                one.setdefault("by_workers", {})[str(workers)] = others
                _print(size, others)
    figures["took_s"] = round(time.monotonic() - began)
    say(f"took {figures['took_s']} s in total")
    print(json.dumps(figures))


def _measure(
    settings: Settings,
    company: Company,
    folder: Path,
    pids: Mapping[str, int],
    size: int,
    seconds: float,
    workers: int,
) -> dict[str, Any]:
    token = mint(settings, EMAIL, groups(), False, timedelta(hours=1))
    access = verify(token, keys.secret_key(settings))
    asked = iter(company.queries(WARM + SINGLE + LEGS + MANY))
    warm, single, legs, many = ([next(asked) for _ in range(count)] for count in (WARM, SINGLE, LEGS, MANY))
    check(settings, access, size)
    prepare(settings, folder, access, single)
    others = psutil.cpu_percent(interval=2)  # before the benchmark uses the machine
    say(f"measuring; {others:.0f} % of the machine is used by other processes")
    with serving(settings, workers) as (port, pid):
        job = Job(
            port=port,
            path="/api/rag/search",
            bodies="",
            headers={"Authorization": f"Bearer {token}"},
            must_hold=search_load.SEARCHED,
        )
        _ask(job._replace(clients=1 if workers == 1 else 4 * workers), folder, warm)  # each process gets some
        alone = _ask(job, folder, single)
        running = {"serving": pid, **pids}
        before = _cpu(running)
        load = _ask(job._replace(clients=8, seconds=seconds), folder, many)
        searches = len(load["milliseconds"])
        spent = {name: cpu - before[name] for name, cpu in _cpu(running).items()} | {"load_generator": load["cpu_s"]}
        rss = {name: _memory(number) for name, number in running.items()}
    vectors = _vector_server(settings, folder, seconds / 2)
    inside = _legs(settings, folder, token, legs)
    found = inside["legs"]
    outside = float(np.median(np.subtract(alone["milliseconds"], alone["inside_ms"])))
    found["http"] = round(outside - found["sign_in"] - found["encode"], 2)
    return {
        "workers": workers,
        "busy_otherwise_percent": others,
        "p50_ms": _percentile(alone, 50),
        "p95_ms": _percentile(alone, 95),
        "p99_ms": _percentile(alone, 99),
        "queries": len(alone["milliseconds"]),
        "searches_per_s": load["per_s"],
        "p50_ms_8_clients": _percentile(load, 50),
        "p95_ms_8_clients": _percentile(load, 95),
        "cpu_ms_per_search": {name: round(cpu / searches * 1000, 2) for name, cpu in spent.items()},
        "rss_mb": rss,
        "legs": found,
        "vector_server_alone": vectors,
        "share_of_vector_server": round(load["per_s"] / vectors["searches_per_s"], 2),
        "results": inside["results"],
        "rounds": inside["rounds"],
    }


def _ask(job: Job, folder: Path, queries: Sequence[str]) -> dict[str, Any]:
    """Send searches and return the load generator's figures."""
    bodies = folder / "bodies.jsonl"
    bodies.write_text("\n".join(json.dumps({"query": query, "top_k": TOP_K}) for query in queries))
    return _checked(search_load.run(job._replace(bodies=str(bodies))))


def _checked(figures: dict[str, Any]) -> dict[str, Any]:
    if figures["wrong"]:
        raise SystemExit(f"Unexpected response: {figures['wrong'][0]}")
    return figures


def _percentile(figures: Mapping[str, Any], share: float) -> float:
    return round(float(np.percentile(figures["milliseconds"], share)), 2)


def _cpu(running: Mapping[str, int]) -> dict[str, float]:
    """Return seconds of processor time by service; for Postgres including its live connections."""
    return {
        name: sum(one.cpu_times().user + one.cpu_times().system for one in _family(pid))
        for name, pid in running.items()
    }


def _memory(pid: int) -> int:
    """Return resident megabytes; shared memory of the processes counts once where the system reports it."""
    return round(sum(getattr(one.memory_full_info(), "pss", one.memory_info().rss) for one in _family(pid)) / 2**20)


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _vector_server(settings: Settings, folder: Path, seconds: float) -> dict[str, Any]:
    """Measure the same batched queries on the vector server alone."""
    address = httpx.URL(settings.qdrant_address)
    job = Job(
        port=address.port or 0,
        path="/collections/documents/points/query/batch",
        bodies=str(folder / "batches.jsonl"),
        again=True,
    )
    one = _checked(search_load.run(job._replace(count=ALONE)))
    eight = _checked(search_load.run(job._replace(clients=8, seconds=seconds)))
    return {
        "p50_ms": _percentile(one, 50),
        "p95_ms": _percentile(one, 95),
        "searches_per_s": eight["per_s"],
        "p95_ms_8_clients": _percentile(eight, 95),
    }


def _legs(settings: Settings, folder: Path, token: str, questions: Sequence[str]) -> dict[str, Any]:
    """Return the median milliseconds of each step and the mean number of results; see `bench/search_legs.py`."""
    given = folder / "legs.json"
    given.write_text(json.dumps({"token": token, "questions": list(questions), "top_k": TOP_K}))
    command = [sys.executable, "-m", "bench.search_legs", str(given)]
    done = subprocess.run(command, cwd=ROOT, env=environment(settings), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The steps could not be measured: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _peers(folder: Path, company: Company, documents: int, left_out: dict[str, str]) -> dict[str, Any]:
    """Return each peer's figures, or the reason why there are none."""
    figures: dict[str, Any] = {}
    if not PEERS_PYTHON.exists():
        left_out |= {name: "not installed: make bench-search" for name in PEERS if name not in left_out}
    if len(left_out) < len(PEERS):
        export(folder, company, documents)
    for name in PEERS:
        if name in left_out:
            figures[name] = {"left_out": left_out[name]}
            continue
        vectors = VectorProcess(folder / f"peer-{time.monotonic_ns()}", options=("--compact-from", "0"))
        vectors.start()
        script = str(ROOT / "bench" / "search_peers.py")
        command = [
            str(PEERS_PYTHON),
            script,
            name,
            str(folder),
            "--seconds",
            str(PEER_SECONDS),
            "--qdrant",
            vectors.url,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PEER_LIMIT_SECONDS)
            if done.returncode:
                sys.stderr.write(done.stderr)
                left_out[name] = f"failed: {done.stderr.strip().splitlines()[-1]}"
                figures[name] = {"left_out": left_out[name]}
                continue
            figures[name] = json.loads(done.stdout.splitlines()[-1])
            say(f"{name}: {json.dumps(figures[name])}")
        except subprocess.TimeoutExpired:
            left_out[name] = f"takes more than {PEER_LIMIT_SECONDS} s"
            figures[name] = {"left_out": left_out[name]}
        finally:
            vectors.close()
            shutil.rmtree(vectors.path, ignore_errors=True)
    return figures


def _print(size: int, one: Mapping[str, Any]) -> None:
    alone = one["vector_server_alone"]
    legs = "  ".join(f"{leg} {ms}" for leg, ms in one["legs"].items())
    rows = [
        ("one client, ms", f"p50 {one['p50_ms']}  p95 {one['p95_ms']}  p99 {one['p99_ms']}"),
        (
            "8 clients",
            f"{one['searches_per_s']} searches/s  p50 {one['p50_ms_8_clients']} ms  p95 {one['p95_ms_8_clients']} ms",
        ),
        ("CPU a search, ms", "  ".join(f"{name} {ms}" for name, ms in one["cpu_ms_per_search"].items())),
        ("legs, median ms", legs),
        ("memory, MB", "  ".join(f"{name} {mb}" for name, mb in one["rss_mb"].items())),
        (
            "vector server alone",
            f"p50 {alone['p50_ms']} ms  p95 {alone['p95_ms']} ms  {alone['searches_per_s']}/s with 8 clients"
            f"  (searches are {one['share_of_vector_server']:.0%} of that)",
        ),
    ]
    for name, peer in one["peers"].items():
        said = (
            peer["left_out"]
            if "left_out" in peer
            else f"p50 {peer['p50_ms']} ms  p95 {peer['p95_ms']} ms  {peer['searches_per_s_8_threads']}/s with 8 threads"
        )
        rows.append((f"{name}, in process", said))
    print(
        f"\n{size:,} chunks, serving processes: {one['workers']} (set up in {one['setup_s']} s;"
        f" {one['results']} results and {one['rounds']} rounds per search)"
    )
    for label, said in rows:
        print(f"  {label:24} {said}", flush=True)


if __name__ == "__main__":
    main()
