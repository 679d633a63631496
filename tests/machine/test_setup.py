"""`setup.sh`: an environment that works survives a set-up that fails, and which Python it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSES = "http://127.0.0.1:9/simple"
"""Port 9 is closed."""
LOCK = f"uv==99.0.0 --hash=sha256:{'0' * 64}\nnothing==1.0 --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a new lock file, whose packages cannot be had."""
    shutil.copy(ROOT / "setup.sh", tmp_path)
    (tmp_path / "requirements.lock").write_text(LOCK)
    return tmp_path


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def set_up(folder: Path, python: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": str(python), "VENV": ".venv", "PIP_INDEX_URL": REFUSES, "PIP_RETRIES": "0"}
    environment |= {"UV_INDEX_URL": REFUSES, "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        ["sh", "setup.sh"], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_an_environment_that_works_survives_an_index_that_cannot_be_reached(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder / ".venv"], check=True)
    ours = program(folder / ".venv/bin/concordance", "echo here")
    for _ in range(2):
        done = set_up(folder, sys.executable)
        assert done.returncode == 1
        assert "could not be installed" in done.stdout
        assert subprocess.run([ours], capture_output=True, text=True, check=True).stdout == "here\n"


@pytest.mark.parametrize("change", ['echo "x" >"{half}"', 'rm "{half}"'], ids=["written", "removed"])
def test_an_environment_that_an_installer_has_changed_is_created_again(folder: Path, change: str) -> None:
    half = folder / ".venv/lib/half.py"
    half.parent.mkdir(parents=True)
    half.write_text("")
    change = change.format(half=half)
    program(folder / ".venv/bin/python", f"sleep 0.1; {change}; exit 1")  # times of files have ticks of 4 ms
    assert set_up(folder, sys.executable).returncode == 1
    assert half.parent.exists()
    done = set_up(folder, sys.executable)
    assert "The previous setup did not finish. Starting again." in done.stdout
    assert not half.exists()


@pytest.mark.parametrize(("version", "taken"), [("3.10", False), ("3.11", True), ("3.14", True), ("3.15", False)])
def test_a_python_for_which_nothing_is_locked_is_refused(folder: Path, version: str, taken: bool) -> None:
    of = version.replace(".", ", ")
    python = program(
        folder / "python",
        f'[ "$1" = --version ] && echo "Python {version}.0" && exit\n[ "$1" = -m ] && exit 1\n'
        f'exec "{sys.executable}" -c "import sys; sys.version_info = ({of}, 0); exec(sys.argv[1])" "$2"',
    )
    done = set_up(folder, python)
    assert done.returncode == 1
    assert ("Concordance needs Python 3.11 to 3.14" in done.stdout) is not taken
    assert ("could not create the environment" in done.stdout) is taken


def test_an_environment_that_exists_needs_no_other_python(folder: Path) -> None:
    """PYTHON is given once, with `make setup`."""
    program(folder / ".venv/bin/python", "exit 1")
    done = set_up(folder, "python-that-is-missing")
    assert "could not be installed" in done.stdout
    assert "was not found" not in done.stdout
