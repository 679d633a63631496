"""Run the soak test (`make soak`) for ten minutes (`SOAK_MINUTES`); exit 1 if anything was lost, duplicated or leaked."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time

from bench.soak.changes import BOB, EVE, PEOPLE, Changes, Syncs
from bench.soak.hostile import Hostile
from bench.soak.kills import Kills
from bench.soak.people import Observed, Person
from bench.soak.report import print_report
from bench.soak.site import Site
from bench.soak.truth import Truth
from bench.soak.visitors import Browser, Reader, Viewer, Visitor
from resources.stores.postgres import session

TELL_SECONDS = 30
SETTLE_SECONDS = 240
ATTEMPTS = 8


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def settle(site: Site, syncs: Syncs) -> list[str]:
    """Wait until every service is ready and each source has been synced once; return the failures."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not site.ready:
        if time.monotonic() > deadline:
            return [f"the services were not ready {SETTLE_SECONDS} s after the last kill"]
        time.sleep(0.5)
    return [
        f"{source} could not be synced without errors in {ATTEMPTS} attempts: {dict(syncs.ended + syncs.errors)}"
        for source in Syncs.SOURCES
        if not any(syncs.sync(source) for _ in range(ATTEMPTS))
    ]


def verify(truth: Truth, people: list[Person]) -> list[str]:
    """Search for every word as every person and return lost facts; leaks and duplicates are counted in `Person`."""
    lost: list[str] = []
    for fact in truth.facts():
        for person in people:
            shown = None
            for _ in range(ATTEMPTS):
                shown = person.look_for(fact.word, "keyword")
                if shown is not None:
                    break
                time.sleep(1)
            if not shown and fact.settled and person.email in fact.audience:
                lost.append(f"{person.email} does not find {fact.word} ({fact.source})")
    return lost


def unaudited(site: Site, observed: Observed) -> int:
    """Return how many answered searches have no row in the audit log."""
    with session(site.settings.postgres_dsn) as connection:
        rows = connection.execute("SELECT query_id::text FROM audit_log WHERE query_id IS NOT NULL").fetchall()
    return len(set(observed.query_ids) - {row["query_id"] for row in rows})


def _tracked(site: Site) -> int:
    """Return how many questions of the book assistant are stored."""
    with session(site.settings.postgres_dsn) as connection:
        return connection.execute("SELECT count(*) AS rows FROM conversations").fetchall()[0]["rows"]


def main() -> int:
    """Run the soak test and return the exit status."""
    seconds = float(os.environ.get("SOAK_MINUTES", "10")) * 60
    truth, observed, until = Truth(), Observed(), threading.Event()
    site = Site()
    say(f"Starting an installation in {site.folder}")
    passed = False
    try:
        site.start()
        changes = Changes(site, truth, until)
        changes.prepare()
        syncs = Syncs(site, truth, changes, until)
        people = [Person(site, truth, observed, email, groups, until) for email, groups in PEOPLE.items()]
        say("First sync of every source")
        if faults := settle(site, Syncs(site, truth, changes, until)):
            raise SystemExit(f"The first sync failed, so the soak test cannot start: {faults}")
        hostile, kills = Hostile(site, until), Kills(site, until)
        visitors: list[Visitor] = [Browser(site, truth, observed, email, until) for email in (BOB, EVE)]
        visitors += [Reader(site, until), Viewer(site, observed, until)]
        threads: list[threading.Thread] = [changes, syncs, hostile, kills, *people, *visitors]
        began, held = time.monotonic(), [site.held()]
        say(f"Running for {seconds:.0f} s")
        for thread in threads:
            thread.start()
        while time.monotonic() < began + seconds:
            time.sleep(min(TELL_SECONDS, max(0.1, began + seconds - time.monotonic())))
            held.append(site.held())
            say(f"{len(observed.seconds)} searches, {sum(observed.errors.values())} errors, {len(kills.kills)} kills, "
                 f"{sum(changes.made.values())} changes, {sum(syncs.ended.values())} syncs, {len(observed.leaks)} leaks, "
                 f"{len(observed.missed)} missed, {held[-1].megabytes} MB")  # fmt: skip
        broken = [thread.name for thread in threads if not thread.is_alive()]
        until.set()
        lasted, latencies = time.monotonic() - began, list(observed.seconds)
        for thread in (changes, hostile, kills, *people, *visitors):  # a hanging sync is not waited for
            thread.join(timeout=SETTLE_SECONDS)
        say("Kills have ended; syncing each source once, then searching for every word as every person")
        lost = settle(site, Syncs(site, truth, changes, until))
        judges = [Person(site, truth, observed, email, groups, until) for email, groups in PEOPLE.items()]
        lost += verify(truth, judges)
        reconciled = site.command("reconcile", "--json")
        if reconciled.returncode != 0:
            lost.append(f"reconcile: {reconciled.stdout.strip().splitlines()[-1:]} {reconciled.stderr.strip()[-500:]}")
        missing, tracked = unaudited(site, observed), _tracked(site)
        held.append(site.held())
        left = site.stop()
        passed = print_report(
            seconds=lasted, latencies=latencies, observed=observed, changes=changes, syncs=syncs, hostile=hostile, visitors=visitors,
            broken=broken, kills=kills.kills, tracked=tracked, held=held, lost=lost, unaudited=missing, left=left,
        )  # fmt: skip
    finally:
        site.stop()
        if passed:
            shutil.rmtree(site.folder, ignore_errors=True)
        else:
            say(f"Logs are kept in {site.folder}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
