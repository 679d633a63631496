"""What `status` and `sync --wait` say about a running sync."""

from __future__ import annotations

import pytest

from orchestration.cli.progress import line
from sql.commands import RunningSync


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"stage": None}, "files: waiting for a worker"),
        ({"stage": "raw", "seconds": 9.0}, "files: reading the source"),
        ({"stage": "indexed", "seconds": 9.0}, "files: nothing to index so far"),
        ({"documents": 500, "seconds": 2.0}, "files: 0 of 500 documents, 0 passages"),
        (
            {"documents": 5000, "done": 1200, "passages": 3400, "seconds": 60.0},
            "files: 1,200 of 5,000 documents, 3,400 passages, 20 documents/s, 3 min left",
        ),
        (
            {"documents": 20, "done": 10, "passages": 40, "seconds": 60.0},
            "files: 10 of 20 documents, 40 passages, 10 documents/min, 60 s left",
        ),
        (
            {"documents": 90_000, "done": 9_000, "passages": 1, "seconds": 3600.0},
            "files: 9,000 of 90,000 documents, 1 passage, 150 documents/min, 9.0 h left",
        ),
        ({"status": "success"}, "files: success"),
    ],
)
def test_a_line(row: dict[str, object], text: str) -> None:
    plain = {"source": "files", "job_id": "x", "status": "running", "stage": "indexed", "seconds": 0.0}
    assert line(RunningSync(**{**plain, "documents": 0, "done": 0, "passages": 0, **row})) == text
