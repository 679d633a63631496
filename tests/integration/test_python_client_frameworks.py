"""The Python client as an installed package: its wheel, its types, and its retrievers in LangChain's and LlamaIndex's own terms."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.programs import run
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.slow

ANN = "ann@acme.com"
ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"
TESTS = ROOT / "tests" / "clients"
INSTALLED = ROOT / ".venv-clients" / "bin" / "python"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The built package, which needs the environment of `make test-all`."""
    if not INSTALLED.exists():
        pytest.skip("the frameworks are not installed: make test-all installs them")
    source = tmp_path / "source"
    shutil.copytree(CLIENT, source, ignore=shutil.ignore_patterns("__pycache__"))
    run(source, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    return next(tmp_path.glob("*.whl"))


def test_the_retrievers_pass_the_frameworks_own_tests(
    wheel: Path, site: Site, running: Running, tmp_path: Path, show: Callable[[str], None]
) -> None:
    for number in range(5):
        site.add(f"Tea {number}", [f"Tea is served at {number} o'clock in kitchen {number}."], ["public"])
    site.add("Secret", ["Tea is served at night in the secret kitchen."], ["group:board@acme.com"])
    packages = tmp_path / "packages"
    run(tmp_path, INSTALLED, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel)
    program = shutil.copy(TESTS / "retrievers.py", tmp_path)
    options = ("-q", "-o", "asyncio_mode=auto", "--rootdir", tmp_path, "-p", "no:cacheprovider")
    variables = {"PYTHONPATH": str(packages), "URL": running.url, "TOKEN": site.token(ANN)}
    show(run(tmp_path, INSTALLED, "-m", "pytest", *options, program, **variables))


def test_the_wheel_is_typed_and_its_types_are_right(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "concordance_client/py.typed" in names
    assert not [name for name in names if not name.startswith(("concordance_client/", "concordance_client-"))]
    checker = Path(sys.executable).with_name("basedpyright")
    assert "0 errors" in run(ROOT, checker, "-p", TESTS / "pyrightconfig.json")
