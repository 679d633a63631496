"""The keeper of run workers: as many as a burst of runs needs, and no more than the spares once it is over."""

from __future__ import annotations

import select
import sys

from orchestration.supervision.workers import SPARES, WorkerPool

QUICK = (sys.executable, "-c", "import os, sys\nfor line in sys.stdin: os.write(1, b'D')")
"""A worker whose every task is done at once."""
BURST = SPARES + 3
WAIT_SECONDS = 30


def test_workers_of_a_burst_end_once_they_are_idle() -> None:
    workers = WorkerPool(QUICK, surplus_seconds=0)
    try:
        for number in range(BURST):
            workers.hand_over(f"run-{number}")
        assert len(workers.outputs()) == BURST
        while len(workers.outputs()) > SPARES:
            spoke, _, _ = select.select(workers.outputs(), [], [], WAIT_SECONDS)
            assert spoke, "no worker has ended"
            workers.tend(spoke)
        for _ in range(3):
            workers.tend()
        assert len(workers.outputs()) == SPARES
        assert workers.hand_over("another")
    finally:
        workers.stop()


def test_workers_of_a_burst_wait_for_the_next_one() -> None:
    workers = WorkerPool(QUICK)
    try:
        for number in range(BURST):
            workers.hand_over(f"run-{number}")
        for _ in range(BURST * 2):
            spoke, _, _ = select.select(workers.outputs(), [], [], 0.2)
            workers.tend(spoke)
        assert len(workers.outputs()) == BURST
    finally:
        workers.stop()
