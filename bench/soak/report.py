"""Print the figures of a soak test as text and as one line of JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.soak.changes import Changes, Syncs
from bench.soak.hostile import Hostile
from bench.soak.kills import Kill
from bench.soak.people import Observed
from bench.soak.site import Held
from bench.soak.visitors import Visitor

SHOWN = 5


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile, or 0 if there are no values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common()) or "none"


def print_kills(kills: Sequence[Kill]) -> None:
    """Print each kill with the time to recovery."""
    print("\nKilled                 searches disturbed for   all services ready after")
    for kill in kills:
        search = f"{kill.search:.1f} s" if kill.search else "not at all"
        services = f"{kill.services:.1f} s" if kill.services is not None else "not before the next kill"
        print(f"  {kill.role:<20} {search:>22}   {services:>24}")


def print_held(held: Sequence[Held]) -> None:
    """Print the resources of each role at the start, at their maximum and at the end."""
    roles = dict.fromkeys(role for one in held for role in one.roles)
    print("\nUsed at start, most, end    processes            MB                  descriptors")
    rows = {role: [one.roles.get(role, (0, 0, 0)) for one in held] for role in sorted(roles)}
    rows["all"] = [(one.processes, one.megabytes, one.descriptors) for one in held]
    for role, samples in rows.items():
        columns = list(zip(*samples, strict=True))
        print(f"  {role:<24}" + "".join(f"{one[0]:>6} {max(one):>6} {one[-1]:>6} " for one in columns))


def print_report(
    *, seconds: float, latencies: Sequence[float], observed: Observed,
    changes: Changes, syncs: Syncs, hostile: Hostile, visitors: Sequence[Visitor], broken: Sequence[str], kills: Sequence[Kill],
    tracked: int, held: Sequence[Held], lost: Sequence[str], unaudited: int, left: Sequence[str],
) -> bool:  # fmt: skip
    """Print everything and return True if no fault was counted and every search has an audit row."""
    print_kills(kills)
    print(f"\nSearches: {len(latencies)} answered in {seconds:.0f} s, p50 {percentile(latencies, 0.5) * 1000:.0f} ms, "
          f"p95 {percentile(latencies, 0.95) * 1000:.0f} ms, longest wait {observed.longest:.1f} s")  # fmt: skip
    print(f"Errors of searches: {_counted(observed.errors)}")
    print(f"Warnings in answers: {_counted(observed.warnings)}")
    print(f"Changes: {_counted(changes.made)}; retried for {_counted(changes.errors)}")
    print(f"Syncs: {_counted(syncs.ended)}; failed requests: {_counted(syncs.errors)}")
    print(f"Hostile clients: {_counted(hostile.answers)}")
    for visitor in visitors:
        print(f"{visitor.name.capitalize()}: {_counted(visitor.answers)}")
    print(f"Questions of the book assistant in the database: {tracked}")
    print_held(held)
    faults: dict[str, Sequence[str]] = {
        "lost": lost,
        "doubled": observed.doubled,
        "leaked": observed.leaks,
        "missed": observed.missed,
        "attacks answered by 500": hostile.server_errors,
        "other requests answered by 500": [
            f"{of}: {kind}, {number} times"
            for of, errors in (("searches", observed.errors), ("changes", changes.errors), ("syncs", syncs.errors))
            for kind, number in errors.items()
            if kind.startswith("500")
        ],
        "what did not happen": [*([] if latencies else ["an answered search"]), *([] if kills else ["a kill"])],
        "faults of visits": [fault for visitor in visitors for fault in visitor.faults],
        "processes left behind": left,
        "threads of the soak test that ended early": broken,
    }
    for name, found in faults.items():
        print(f"{name}: {len(found)}" + "".join(f"\n  {one}" for one in found[:SHOWN]))
    print(f"searches without an audit row: {unaudited}")
    figures: dict[str, Any] = {
        "seconds": round(seconds),
        "searches": len(latencies),
        "p50_ms": round(percentile(latencies, 0.5) * 1000, 1),
        "p95_ms": round(percentile(latencies, 0.95) * 1000, 1),
        "errors": dict(observed.errors),
        "kills": [[kill.role, round(kill.search, 1), kill.services and round(kill.services, 1)] for kill in kills],
        "start": vars(held[0]),
        "end": vars(held[-1]),
        "most_megabytes": max(one.megabytes for one in held),
        "unaudited": unaudited,
        "tracked": tracked,
        **{name.replace(" ", "_"): len(found) for name, found in faults.items()},
    }
    print(json.dumps(figures))
    return not (unaudited or any(faults.values()))
