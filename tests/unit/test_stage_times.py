"""How long each stage of a sync was busy: work within that of another stage counts once."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the job sees."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_work_within_another_stage_counts_for_one_of_them(clock: list[float]) -> None:
    job = SyncJob(cast("Stores", cast("Any", None)))
    with job.busy("raw"):
        clock[0] += 1
        with job.busy("parsed"):
            clock[0] += 2
            with job.busy("chunked"):
                clock[0] += 4
        clock[0] += 8
    with job.busy("raw"):
        clock[0] += 16
    assert {stage: result.seconds for stage, result in job.results.items()} == {"raw": 25, "parsed": 2, "chunked": 4}
