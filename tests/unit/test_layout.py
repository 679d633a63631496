"""The map of the code: every package says what lives in it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from serving.routes import ROOMS

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


def test_every_module_with_routes_is_listed() -> None:
    listed = {module.__name__ for room in ROOMS for module in room}
    route = re.compile(r"^@(get|post|put|patch|delete|head|asgi|route|\w*(page|open)_route)\(", re.MULTILINE)
    files = [file for file in sorted((ROOT / "serving").rglob("*.py")) if route.search(file.read_text())]
    assert len(files) > 40
    modules = {str(file.relative_to(ROOT).with_suffix("")).replace("/", ".") for file in files}
    assert modules <= listed


def test_tests_import_what_there_is() -> None:
    # those of machines take too long for each change, and nothing checks the types of any
    wrong: list[str] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
                *PACKAGES,
                "tests",
                "bench",
            ):
                wrong += [f"{file.relative_to(ROOT)}:{node.lineno}: {name}" for name in _missing(node)]
    assert not wrong


def _missing(node: ast.ImportFrom) -> list[str]:
    """Return the names that a module of ours neither binds nor contains."""
    place = ROOT / str(node.module).replace(".", "/")
    init = place / "__init__.py"
    file = init if init.exists() else place.with_suffix(".py")
    bound = _bound(file) if file.exists() else frozenset[str]()
    return [
        one.name
        for one in node.names
        if one.name not in bound and not (place / one.name).is_dir() and not (place / f"{one.name}.py").exists()
    ]


@cache
def _bound(file: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


IN_SHARED_THREADS = {
    "serving/agents/mcp.py",  # an import
    "serving/agents/oauth.py",  # an import
    "serving/http/audit.py",  # the disk, while Postgres is down
    "serving/identity/sign_in/emailed.py",  # one alert of a series
    "serving/identity/withholding.py",  # one task
    "serving/search/understanding/names.py",  # the processor
}
"""What runs in the event loop's own threads, which look up the names of hosts."""


def test_what_waits_for_another_service_has_threads_of_its_own() -> None:
    found = {str(path) for path in Path("serving").rglob("*.py") if "asyncio.to_thread(" in path.read_text()}
    assert found == IN_SHARED_THREADS
