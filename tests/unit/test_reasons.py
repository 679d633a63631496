"""Kinds of reasons: every reason in the code has one, and none but the text itself can be read from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from resources.core.kinds import OTHER
from resources.core.reasons import KINDS, kind_of
from resources.sources.tree import too_large

ROOT = Path(__file__).resolve().parents[2]
ERRORS = ("SkipDocumentError", "FailedDocumentError")


def written(node: ast.expr, module: str) -> str | None:
    """Return a reason as the code writes it, with 7 for every value; None if it comes from elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            found = getattr(import_module(module), name, None)
            return found if isinstance(found, str) else None
        case ast.JoinedStr(values=parts):
            return "".join(written(part, module) or "7" for part in parts)
        case ast.FormattedValue(value=ast.Name() as name):
            return written(name, module)
        case _:
            return None


def reasons() -> Iterator[tuple[str, str]]:
    for file in [*ROOT.glob("assets/**/*.py"), *ROOT.glob("resources/**/*.py")]:
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args:
                text = written(node.args[0], module)
                if text is not None and any(letter.isalpha() for letter in text):  # the rest consists of values
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def test_every_reason_in_the_code_has_a_kind() -> None:
    found = dict(reasons())
    assert len(found) > 70
    assert {place: text for place, text in found.items() if kind_of(text) == OTHER} == {}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (too_large(7, 5), "too_large"),
        ("The PDF is encrypted. Save it without a password and it will be indexed.", "encrypted"),
        ("otter.xls does not match its extension: it is a ZIP archive. Supported: .txt", "unsupported"),
        ("Its sidecar (.meta.json) is invalid, so no one may see it: permissions. Fix the sidecar.", "permissions"),
        ("Parsing took longer than 60 s.", "too_slow"),
        ("Layoffs of the otter.", OTHER),
        ("", OTHER),
    ],
)
def test_the_kind_says_nothing_else(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind
    assert kind in KINDS
