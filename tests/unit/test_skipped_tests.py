"""No test is skipped unnoticed: the run ends with the list, and where it counts, a skip is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import npm

ROOT = Path(__file__).parents[2]
SKIPPED = """
import pytest

@pytest.fixture
def disk():
    pytest.skip("no disk")

def test_on_disk(disk): ...

@pytest.mark.parametrize("size", [1, 2])
def test_sizes(disk, size): ...

@pytest.mark.skipif(True, reason="another system")
def test_elsewhere(): ...

def test_here(): ...
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_ends_with_what_was_skipped_and_why(processes: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPED)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        processes,
        "-p",
        "tests.fixtures.skipped",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", f"--confcutdir={tmp_path}", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    title, *listed, last = done.stdout.splitlines()[-8:]
    assert "4 skipped, by reason" in title
    assert listed == [
        "1: another system",
        "   test_some.py::test_elsewhere",
        "3: no disk",
        "   test_some.py::test_on_disk",
        "   test_some.py::test_sizes[1]",
        "   test_some.py::test_sizes[2]",
    ]
    assert last.startswith("1 passed, 4 skipped")


def test_a_package_that_npm_cannot_install_fails_the_test_where_ci_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("npm", "node"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'no registry' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(npm, "VENV", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="npm cannot install left-pad: no registry"):
        npm.installed("some", **{"left-pad": "1.0.0"})
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="npm cannot install left-pad: no registry"):
        npm.installed("some", **{"left-pad": "1.0.0"})
