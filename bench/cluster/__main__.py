"""Start the cluster, run the end-to-end tests of the sample company against it, then a soak with breakage (`make cluster`).

`CLUSTER_MINUTES` is how long the soak lasts (5). Exits with 1 if a test failed, a search failed, or anything was lost, doubled or leaked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from bench.cluster.breakage import Load, kill_a_worker, replace_serving, restart_storage
from bench.cluster.site import ClusterSite
from bench.soak.__main__ import say, settle, unaudited, verify
from bench.soak.changes import PEOPLE, Changes, Syncs
from bench.soak.people import Observed, Person
from bench.soak.report import percentile
from bench.soak.truth import Truth
from orchestration.supervision.environment import ROOT
from resources.logging import configure
from resources.stores.postgres import session

TESTS = ("tests/machine/test_sample_company.py",)
SUPERVISED = f"{TESTS[0]}::test_the_demonstration_passes_on_the_running_set_and_its_sync_changes_nothing"
"""Needs the services of `concordance up`."""
BREAKAGE: tuple[Callable[[ClusterSite], str], ...] = (kill_a_worker, replace_serving, restart_storage)


def main() -> int:
    """Run all of it and return the exit status."""
    configure("error", "bench")
    began = time.monotonic()
    site = ClusterSite()
    passed = False
    try:
        say(f"Starting the cluster in {site.folder}")
        site.start()
        for name, processes in site.processes().items():
            print(f"  {name:<12} {len(processes)} processes")
        say("End-to-end tests of the sample company, through the proxy")
        faults = [f"{' '.join(TESTS)}: see above"] if _tests(site) else []
        print(f"Runs that Dagster's queue has started: {_planned(site)}")
        faults += _soak(site)
        left = site.stop()
        faults += [f"left behind: {one}" for one in left]
        passed = not faults
        print("\n".join(faults) or "No faults.")
    finally:
        site.stop()
        if passed:
            shutil.rmtree(site.folder, ignore_errors=True)
        else:
            say(f"Logs are kept in {site.folder}")
    say(f"{time.monotonic() - began:.0f} s in all")
    return 0 if passed else 1


def _tests(site: ClusterSite) -> int:
    """Run the tests against the cluster, whose settings are in the environment, and return their exit status."""
    environment = {**os.environ, "CONCORDANCE_TEST_INSTALLATION": str(site.settings.home)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, "--deselect", SUPERVISED]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _planned(site: ClusterSite) -> int:
    """Return how many runs a sync has left to others."""
    with session(site.settings.postgres_dsn) as connection:
        rows = connection.execute("SELECT count(*) AS jobs FROM sync_jobs WHERE planned_by IS NOT NULL").fetchall()
    return rows[0]["jobs"]


def _soak(site: ClusterSite) -> list[str]:
    """Search, change and sync while parts break, and return what is wrong."""
    seconds = float(os.environ.get("CLUSTER_MINUTES", "5")) * 60
    truth, observed, until = Truth(), Observed(), threading.Event()
    changes = Changes(site, truth, until)
    changes.prepare()
    first = Syncs(site, truth, changes, until)
    if faults := settle(site, first):
        return faults
    syncs = Syncs(site, truth, changes, until)
    people = [Person(site, truth, observed, email, groups, until) for email, groups in PEOPLE.items()]
    load = Load(site, until)
    threads: list[threading.Thread] = [changes, syncs, load, *people]
    say(f"Soak of {seconds:.0f} s")
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for number, break_it in enumerate(BREAKAGE, start=1):
        time.sleep(max(0.0, started + seconds * number / (len(BREAKAGE) + 1) - time.monotonic()))
        say(
            f"{break_it(site)}; {load.answered + len(observed.seconds)} searches so far, {sum(load.failures.values())} failed"
        )
    time.sleep(max(0.0, started + seconds - time.monotonic()))
    broken = [thread.name for thread in threads if not thread.is_alive()]
    until.set()
    for thread in (changes, load, *people):
        thread.join(timeout=120)
    say("Syncing each source once, then searching for every word as every person")
    latencies = list(observed.seconds)
    lost = settle(site, first) + verify(
        truth, [Person(site, truth, observed, e, groups, until) for e, groups in PEOPLE.items()]
    )
    reconciled = site.command("reconcile", "--json")
    if reconciled.returncode:
        lost.append(f"reconcile: {reconciled.stdout.strip()[-300:]} {reconciled.stderr.strip()[-300:]}")
    failures = load.failures + observed.errors
    print(f"Searches: {load.answered + len(latencies)}, failed {sum(failures.values())} {dict(failures) or ''}")
    print(f"Latency: p50 {percentile(latencies, 0.5) * 1000:.0f} ms, p95 {percentile(latencies, 0.95) * 1000:.0f} ms")
    print(f"Changes: {sum(changes.made.values())}; syncs: {dict(syncs.ended)}; requests of changes and syncs repeated:"
          f" {sum((changes.errors + syncs.errors).values())}")  # fmt: skip
    found = {
        "searches failed": [f"{name}: {number}" for name, number in failures.items()],
        "lost": lost,
        "doubled": observed.doubled,
        "leaked": observed.leaks,
        "missed": observed.missed,
        "without an audit row": [str(number)] if (number := unaudited(site, observed)) else [],
        "ended early": broken,
    }
    for name, faults in found.items():
        print(f"{name}: {len(faults)}")
    return [f"{name}: {fault}" for name, faults in found.items() for fault in faults[:5]]


if __name__ == "__main__":
    sys.exit(main())
