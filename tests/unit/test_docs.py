"""The documentation against the code: settings, commands, routes, fields, problems, metrics, make targets, links, test names."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cyclopts import App, CoercionError, CycloptsError, MissingArgumentError
from litestar.routes import HTTPRoute

from assets.stages.profiles import PROFILES
from orchestration.cli.app import app as command_line
from resources.core.errors import InvalidRequestError
from resources.settings import FileRoot, Settings, Widget
from resources.settings.secret_files import variables_of
from resources.settings.variables import FIXED, GROUPS, NESTED, variable_of
from resources.sources.sidecars import Sidecar
from serving.app import create_app
from serving.http.metrics import Metrics
from serving.http.openapi.document import build
from serving.http.problems import PROBLEMS
from serving.search import filters, results, schemas
from serving.search import searches as search
from serving.sources import sync

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for folder in (".", "docs", "bench", "deploy") for page in (ROOT / folder).glob("*.md"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tables(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every table row of a page: the first cell of its table's header, and its own cells."""
    header = ""
    lines = read(page).splitlines()
    for line, following in pairwise([*lines, ""]):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("| ") else []
        if following.startswith("|---"):
            header = cells[0]
        elif cells:
            yield header, cells


def rows(page: str, table: str | None = None) -> dict[str, list[str]]:
    """Return the cells of a page's table rows by the row's first cell; of the tables with this first header, or of all."""
    return {cells[0]: cells[1:] for header, cells in tables(page) if table in {None, header}}


def names_in_tables(page: str, table: str | None = None) -> set[str]:
    """Return what stands in backticks in the first column of a page's tables."""
    return {name for first in rows(page, table) for name in re.findall(r"`([^`]+)`", first)}


def shown(value: Any) -> str:
    """Return a default as the documentation writes it."""
    if value is None or value == ():
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{' '.join(map(str, value))}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


MACHINE = {"serving_workers": 2}
"""Defaults that depend on the machine, as they are on most."""
SETTINGS = [
    *((f"`CONCORDANCE_{group.upper()}`", "unset") for group in GROUPS),
    *(
        (f"`{variable_of(name)}`", shown(MACHINE.get(name, field.default)))
        for name, field in Settings.model_fields.items()
        if name not in FIXED
    ),
]
VARIABLES = {variable.strip("`") for variable, _ in SETTINGS}
FILES = {*variables_of(Settings).values()}


def test_every_setting_is_documented_with_its_default() -> None:
    documented = rows("docs/configuration.md")
    defaults = {variable: documented[variable][0] for variable, _ in SETTINGS if variable in documented}
    assert defaults == dict(SETTINGS)
    assert [variable for variable in defaults if len(documented[variable][1]) <= 10] == []


def test_no_setting_is_documented_that_is_not_there() -> None:
    named = {name for name in names_in_tables("docs/configuration.md") if name.startswith("CONCORDANCE_")}
    assert named == VARIABLES
    assert len([name for name in named if "__" not in name]) <= 59
    assert names_in_tables("docs/configuration.md", "setting") == {variable_of(name) for name in NESTED}
    assert names_in_tables("docs/configuration.md", "fixed figure") == FIXED


def test_pages_name_only_settings_that_exist() -> None:
    kinto = set(re.findall(r"CONCORDANCE_KINTO_\w+", read("examples/connector-kinto/README.md")))
    compose = set(re.findall(r"\$\{(CONCORDANCE_\w+)", read("deploy/compose.yaml")))
    known = {page: VARIABLES | FILES | kinto | compose | {"CONCORDANCE_NAME", "CONCORDANCE_KINTO"} for page in PAGES}
    known[ROOT / "CHANGELOG.md"] |= {f"CONCORDANCE_{name.upper()}" for name in NESTED.keys() | FIXED}
    named = {page: set(re.findall(r"CONCORDANCE_[A-Z_]+[A-Z]", page.read_text("utf-8"))) for page in PAGES}
    assert {page: names - known[page] for page, names in named.items() if names - known[page]} == {}


def test_file_roots_widgets_sidecars_and_profiles_are_documented() -> None:
    assert names_in_tables("docs/configuration.md", "field") == set(FileRoot.model_fields)
    assert names_in_tables("docs/widget.md", "field") == set(Widget.model_fields)
    assert names_in_tables("docs/configuration.md", "key") == set(Sidecar.__struct_fields__)
    assert names_in_tables("docs/configuration.md", "profile") == {"auto", *PROFILES}


def commands(app: App, above: str = "concordance") -> Iterator[str]:
    for name in app:
        if name.startswith("-"):
            continue
        inner = app[name]
        nested = [other for other in inner if not other.startswith("-")]
        yield from commands(inner, f"{above} {name}") if nested else [f"{above} {name}"]


def test_every_command_is_documented() -> None:
    page = read("docs/operations.md")
    assert "concordance up" in set(commands(command_line))
    assert [command for command in commands(command_line) if not re.search(rf"`{command}\b", page)] == []


def test_messages_of_drive_and_slack_name_their_own_pages() -> None:
    modules = [*ROOT.glob("resources/sources/drive/*.py"), *ROOT.glob("resources/sources/slack/*.py")]
    modules += ROOT.glob("serving/sources/slack*.py")
    assert [one.name for one in modules if "docs/operations.md" in one.read_text(encoding="utf-8")] == []


CODE = [path for folder in ("assets", "orchestration", "resources", "serving") for path in (ROOT / folder).rglob("*")]
SPAN = re.compile(r"(?:`|<code>)concordance ([a-z][^`<]*)(?:`|</code>)")
LINE = re.compile(r"(?:: |^ {4,})concordance ([a-z][^`<#|;]*?)(?=\.?$|\. |;|\s[|#])", re.MULTILINE)
"""A command after a colon, or in a block of code."""


def messages(module: str) -> Iterator[str]:
    """Yield the texts of a module, with a word for each value that they insert."""
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
            yield re.sub(r"(?<! )VALUE", "", "".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_commands() -> Iterator[tuple[str, str]]:
    """Yield each command that a page, a message, a template or a script names, with its file."""
    for path in [*PAGES, *CODE]:
        if path.name in {"CHANGELOG.md", "DECISIONS.md"} or path.suffix not in {".md", ".py", ".html", ".js"}:
            continue
        text = path.read_text(encoding="utf-8")
        for said in messages(text) if path.suffix == ".py" else [text]:
            for found in [*SPAN.findall(said), *LINE.findall(said)]:
                for one in found.split("concordance "):
                    yield str(path.relative_to(ROOT)), re.sub(r"\[|\]|\(.*\)", "", " ".join(one.split()))


def test_every_command_that_is_named_exists_with_its_arguments() -> None:
    """Values may be wrong or missing, as in `concordance sync SOURCE`; arguments and options may not."""
    found = set(named_commands())
    assert ("docs/operations.md", "rebuild registry SOURCE") in found
    wrong: list[str] = []
    for file, command in sorted(found):
        try:
            command_line.parse_args(shlex.split(command), exit_on_error=False, print_error=False)
        except (MissingArgumentError, CoercionError, InvalidRequestError):
            continue
        except (CycloptsError, ValueError) as error:
            wrong.append(f"{file}: concordance {command}: {error}")
    assert wrong == []


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return `METHOD /path` of every route, from an app that is never started."""
    app = create_app(Settings(home=tmp_path_factory.mktemp("home"), _env_file=None))  # pyright: ignore[reportCallIssue]
    return {
        f"{method} {route.path_format}"
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods
        if method not in {"OPTIONS", "HEAD"}
    }


def test_every_route_is_documented_and_no_other(routes: set[str]) -> None:
    assert "POST /api/rag/search" in routes
    documented = {name for name in names_in_tables("docs/http.md") if re.match(r"(GET|POST|PUT|PATCH|DELETE) /", name)}
    assert documented == routes


def test_every_field_of_a_search_is_documented_with_its_default() -> None:
    documented = rows("docs/http.md", "field")
    for field in msgspec.structs.fields(search.SearchRequest):
        default = documented[f"`{field.name}`"][0]
        if field.required:
            assert default == "required", field
        elif field.default in {None, msgspec.NODEFAULT}:
            assert default in {"none", "the setting"}, field
        else:
            assert default == shown(field.default), field


@pytest.mark.parametrize(
    ("struct", "table"),
    [
        (search.SearchRequest, "field"),
        (filters.Filters, "filter"),
        (search.SearchResponse, "field of the answer"),
        (results.Result, "field of a result"),
    ],
)
def test_the_fields_of_a_search_are_documented_and_no_others(struct: type[msgspec.Struct], table: str) -> None:
    assert names_in_tables("docs/http.md", table) == set(struct.__struct_fields__)


@pytest.mark.parametrize("struct", [schemas.Citation, results.Explanation, filters.DateRange, sync.SyncStatus])
def test_the_inner_fields_are_named(struct: type[msgspec.Struct]) -> None:
    page = read("docs/http.md")
    assert [name for name in struct.__struct_fields__ if not re.search(rf"\b{name}\b", page)] == []


def test_every_field_of_the_interface_is_named(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path, _env_file=None))  # pyright: ignore[reportCallIssue]
    described = build(app, "1.0")["components"]["schemas"]
    page = read("docs/http.md")
    fields = {f"{name}.{field}" for name, schema in described.items() for field in schema.get("properties", ())}
    assert len(fields) > 400
    assert {one for one in fields if not re.search(rf"\b{one.partition('.')[2]}\b", page)} == set()


def test_every_problem_is_documented() -> None:
    documented = rows("docs/http.md")
    statuses = {slug: documented.get(f"`{slug}`", [""])[0] for slug in PROBLEMS}
    assert statuses == {slug: str(kind.status) for slug, kind in PROBLEMS.items()}
    assert [slug for slug, kind in PROBLEMS.items() if kind.title not in documented[f"`{slug}`"][1]] == []


def test_every_metric_is_documented() -> None:
    exposition = Metrics().render([], points=1, size=1).decode()
    names = {name for name in re.findall(r"^# HELP (\S+)", exposition, re.MULTILINE) if not name.endswith("_created")}
    documented = {name.partition("{")[0] for name in names_in_tables("docs/operations.md")}
    assert "rag_search_latency_ms" in names
    assert names <= documented


def test_every_make_target_has_help() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):(?!=)(.*)$", read("Makefile"), re.MULTILINE)
    assert {"demo", "test", "up", "check"} <= {name for name, _ in targets}
    assert [name for name, rest in targets if not re.search(r"## \S", rest)] == []


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_has_the_two_commands_on_lines_of_their_own(command: str) -> None:
    assert f"\n    {command}\n" in read("README.md")
    assert re.search(rf"^{command.split()[1]}:", read("Makefile"), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    broken: list[str] = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            linked = (page.parent / target).resolve() if target else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(f"{page.name}: {target}#{anchor}")
    assert broken == []


def test_the_architecture_names_what_exists() -> None:
    page = read("docs/architecture.md")
    paths = set(re.findall(r"`((?:sql|resources|assets|orchestration|serving|simulators)/[\w/.]*\w)`", page))
    assert len(paths) > 30
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    migrations = "".join(file.read_text("utf-8") for file in (ROOT / "sql/migrations").glob("*.sql"))
    tables = {*re.findall(r"^CREATE TABLE (\w+)", migrations, re.MULTILINE), "raw_SOURCE", "parsed", "chunked"}
    tables.add("embedded_MODEL_DIMENSIONS")
    named = names_in_tables("docs/architecture.md", "table")
    assert len(named) > 10
    assert named <= tables


def test_the_index_of_decisions_lists_every_group() -> None:
    page = read("DECISIONS.md")
    groups = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert len(groups) > 20
    assert re.findall(r"^- \[(.+?)\]\(#", page, re.MULTILINE) == groups


def test_tests_that_are_named_as_proof_exist() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(
        re.findall(r"`(?:tests/)?((?:unit|contract|integration|machine)/test_\w+\.py)(?:::(test_\w+))?`", pages)
    )
    assert len(named) > 300
    files = {file: (ROOT / "tests" / file) for file, _ in named}
    text = {file: path.read_text(encoding="utf-8") if path.exists() else "" for file, path in files.items()}
    assert sorted((file, test) for file, test in named if f"def {test}{'(' * bool(test)}" not in text[file]) == []
