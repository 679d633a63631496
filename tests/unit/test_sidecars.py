"""Sidecars and the precedence of metadata."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resources.core.errors import SkipDocumentError
from resources.settings import FileRoot
from resources.sources.sidecars import Sidecar, check_required, merge, parse, path_tags, root_tags


def root(**more: Any) -> FileRoot:
    return FileRoot(**{"name": "r", "url": "file:///srv/r", "tenant": "acme", "dataset": "handbook", **more})


def test_a_full_sidecar() -> None:
    said = parse(
        json.dumps(
            {
                "title": " Plan ",
                "description": "What we plan.",
                "owner": "Ada@Acme.com",
                "author": "Ada Lovelace",
                "permissions": ["Public", "GROUP:Eng@acme.com"],
                "created_at": "2025-01-31",
                "modified_at": "2025-02-01T10:00:00+02:00",
                "department": "finance",
                "tags": {"lifecycle": "draft", "years": [2024, 2025], "final": False},
            }
        ).encode()
    )
    assert said == Sidecar(
        title="Plan",
        description="What we plan.",
        owner="ada@acme.com",
        author="Ada Lovelace",
        permissions=("group:eng@acme.com", "public"),
        created_at=datetime(2025, 1, 31, tzinfo=UTC),
        modified_at=datetime(2025, 2, 1, 8, tzinfo=UTC),
        tags={"department": "finance", "lifecycle": "draft", "years": [2024, 2025], "final": False},
    )


def test_silence_and_an_empty_list_differ() -> None:
    assert parse(b"{}").permissions is None
    assert parse(b'{"permissions": []}').permissions == ()


def test_a_byte_order_mark_is_no_fault() -> None:
    assert parse(b'\xef\xbb\xbf{"title": "x"}').title == "x"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe{\x00}\x00",
        b"[" * 100_000,
        b'{"permissions": "public"}',
        b'{"permissions": null}',
        b'{"permissions": ["everyone"]}',
        b'{"permissions": [1]}',
        b'{"permisions": ["ada@acme.com"]}',
        b'{"permission": ["ada@acme.com"]}',
        b'{"acl": ["ada@acme.com"]}',
        b'{"owner": "finance team"}',
        b'{"title": 7}',
        b'{"created_at": "yesterday"}',
        b'{"tags": ["a"]}',
        b'{"tags": {"a": {"b": 1}}}',
        b'{"tags": {"tenant": 7}}',
        b'{"lifecycle": ["draft"]}',
        b'{"title": "a\\u0000b"}',
        b'{"tags": {"a": "b\\u0000"}}',
        b'{"tags": {"a": 123456789012345678901234567890}}',
        b'{"title": "\\ud800"}',
    ],
)
def test_what_is_not_understood_hides_the_document(content: bytes) -> None:
    with pytest.raises(SkipDocumentError, match="no one may see it"):
        parse(content)


def test_request_over_sidecar_over_path_over_defaults() -> None:
    defaults = {"a": "default", "b": "default", "c": "default", "d": "default"}
    merged = merge({"a": "request"}, {"a": "sidecar", "b": "sidecar"}, {"b": "path", "c": "path"}, defaults)
    assert merged == {"a": "request", "b": "sidecar", "c": "path", "d": "default"}


@pytest.mark.parametrize(
    ("tenant", "dataset", "folders", "inferred"),
    [
        ("acme", "handbook", ("x", "y"), {}),
        ("*", "*", ("x", "y", "z"), {"tenant": "x", "dataset": "y"}),
        ("*", "*", ("x",), {"tenant": "x"}),
        ("*", "*", (), {}),
        ("acme", "*", ("x", "y"), {"dataset": "x"}),
        ("*", "handbook", ("x", "y"), {"tenant": "x"}),
    ],
)
def test_the_path_gives_only_what_the_root_leaves_to_it(
    tenant: str, dataset: str, folders: tuple[str, ...], inferred: dict[str, str]
) -> None:
    assert path_tags(root(tenant=tenant, dataset=dataset), folders) == inferred


def test_a_roots_explicit_values_take_precedence_over_its_tags() -> None:
    assert root_tags(root(tags={"tenant": "other", "topic": "x"})) == {
        "source": "files",
        "tenant": "acme",
        "dataset": "handbook",
        "topic": "x",
    }
    assert root_tags(root(tenant="*", tags={"tenant": "fallback"}))["tenant"] == "fallback"


@pytest.mark.parametrize("tags", [{"dataset": "d"}, {"tenant": " ", "dataset": "d"}, {"tenant": "t"}])
def test_tenant_and_dataset_are_required(tags: dict[str, str]) -> None:
    with pytest.raises(SkipDocumentError, match=r"It has no (tenant|dataset)"):
        check_required(tags)
