"""What `status` and `sync --wait` say about a running sync."""

from __future__ import annotations

import pytest

from orchestration.cli.progress import line
from sql.cli import RunningSync


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"stage": None}, "files: waiting to start"),
        ({"stage": "queued"}, "files: waiting in Dagster's queue"),
        (
            {"stage": "delayed", "seconds": 90.0},
            "files: delayed: this machine is busy, and the sync starts when a process is free",
        ),
        ({"stage": "raw", "seconds": 9.0}, "files: reading the source"),
        ({"stage": "indexed", "seconds": 9.0}, "files: nothing to index so far"),
        ({"documents": 500, "seconds": 2.0}, "files: 0 of 500 documents, 0 passages"),
        (
            {"documents": 500, "passages": 400, "expected": 4000, "seconds": 20.0},
            "files: 0 of 500 documents, 400 of some 4,000 passages, 20 passages/s, 3 min left",
        ),
        (
            {"documents": 20, "done": 10, "passages": 40, "expected": 80, "seconds": 600.0},
            "files: 10 of 20 documents, 40 of some 80 passages, 4 passages/min, 10 min left",
        ),
        (
            {"documents": 90_000, "done": 89_000, "passages": 1, "expected": 1, "seconds": 3600.0},
            "files: 89,000 of 90,000 documents, 1 passage, 0 passages/min",
        ),
        ({"status": "success"}, "files: success"),
    ],
)
def test_a_line(row: dict[str, object], text: str) -> None:
    plain = {"source": "files", "job_id": "x", "status": "running", "stage": "indexed", "seconds": 0.0}
    assert line(RunningSync(**{**plain, "documents": 0, "done": 0, "passages": 0, "expected": 0, **row})) == text
