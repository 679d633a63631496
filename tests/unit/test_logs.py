"""Log files are rotated while they are being written, and no line is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from orchestration.supervision.logs import rotate

LINES = 20_000
WRITER = f"import os\nfor number in range({LINES}): os.write(1, b'line %08d of the log\\n' % number)"
LIMIT = 64 * 1024


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk: a file system in memory cannot remove the beginning of a file."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_nothing_that_is_written_meanwhile_is_lost(on_disk: Path) -> None:
    log = on_disk / "service.log"
    parts: list[bytes] = []
    with log.open("ab") as out:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdout=out)
    while writer.poll() is None:
        if rotate(log, LIMIT):
            parts.append(log.with_suffix(".log.1").read_bytes())
    assert writer.returncode == 0
    parts.append(log.read_bytes())
    whole = b"".join(parts)
    if len(parts) < 2 or log.stat().st_size == 0:
        pytest.skip("this file system cannot remove the beginning of a file")
    assert whole == b"".join(b"line %08d of the log\n" % number for number in range(LINES))


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    log.write_bytes(b"x" * LIMIT)
    assert not rotate(log, LIMIT)
    assert log.read_bytes() == b"x" * LIMIT
    assert not log.with_suffix(".log.1").exists()


def test_a_log_that_is_not_written_to_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    text = b"".join(b"%015d\n" % number for number in range(LIMIT // 8))
    log.write_bytes(text)
    assert rotate(log, LIMIT)
    assert log.with_suffix(".log.1").read_bytes() + log.read_bytes() == text
