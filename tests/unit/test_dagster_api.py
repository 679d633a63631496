"""Private modules of Dagster: used in one place, for the release that is named there."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import dagster

from orchestration.dagster_api import VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sql", "resources", "assets", "orchestration", "serving", "simulators")
PLACE = "orchestration/dagster_api.py"
COMMANDS = {"orchestration/supervision/commands.py": ["dagster._daemon"]}
"""Modules that are run by their name. The supervisor never imports Dagster."""


def test_one_module_imports_private_modules_of_dagster() -> None:
    places = {
        str(file.relative_to(ROOT)): found
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if (found := [name for node in ast.walk(ast.parse(file.read_text())) for name in named(node) if private(name)])
    }
    assert places.pop(PLACE)
    assert places == COMMANDS


def test_the_release_is_the_one_that_is_installed_and_admitted() -> None:
    major, minor = VERSION.split(".")
    assert dagster.__version__.startswith(f"{VERSION}.")
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (given,) = [one for one in dependencies if one.startswith("dagster>=")]
    assert given.startswith(f"dagster>={VERSION}.")
    assert given.endswith(f",<{major}.{int(minor) + 1}")


def named(node: ast.AST) -> list[str]:
    """Return the modules that a node imports, or the text that it is."""
    match node:
        case ast.ImportFrom(module=str(module)):
            return [f"{module}.{one.name}" for one in node.names]
        case ast.Import():
            return [one.name for one in node.names]
        case ast.Constant(value=str(text)):
            return [text]
        case _:
            return []


def private(name: str) -> bool:
    return name.startswith("dagster._")
