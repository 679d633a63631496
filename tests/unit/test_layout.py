"""The map of the code: every package says what lives in it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from serving.app import ROOMS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sql", "resources", "assets", "orchestration", "serving", "simulators")


def test_every_package_says_what_lives_there() -> None:
    silent: list[str] = []
    for package in PACKAGES:
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


def test_a_class_name_is_used_for_one_class() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_no_two_migrations_have_the_same_number() -> None:
    numbers = [file.name[:4] for file in (ROOT / "sql/migrations").glob("*.sql")]
    assert len(numbers) == len(set(numbers))


def test_every_module_with_routes_is_listed_by_its_room() -> None:
    listed = {module.__name__ for room in ROOMS for module in room.MODULES}
    route = re.compile(r"^@(get|post|put|patch|delete|head|asgi|route|\w*page_route)\(", re.MULTILINE)
    files = [file for file in sorted((ROOT / "serving").rglob("*.py")) if route.search(file.read_text())]
    assert len(files) > 40
    modules = {str(file.relative_to(ROOT).with_suffix("")).replace("/", ".") for file in files}
    assert modules <= listed
