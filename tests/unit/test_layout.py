"""The map of the code: every package says what lives in it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_package_says_what_lives_there() -> None:
    silent: list[str] = []
    for package in ("sql", "resources", "assets", "orchestration", "serving"):
        for init in sorted((ROOT / package).rglob("__init__.py")):
            said = ast.get_docstring(ast.parse(init.read_text())) or ""
            if not said.splitlines() or not said.splitlines()[0].endswith((".", ":")):
                silent.append(str(init.relative_to(ROOT)))
    assert not silent
    folders = {
        file.parent
        for package in ("resources", "assets", "orchestration", "serving")
        for file in (ROOT / package).rglob("*.py")
    }
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
