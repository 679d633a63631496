"""Limits of GraphQL documents, by documents that are small to send and long to read."""

from __future__ import annotations

import pytest
from graphql import OperationType, get_introspection_query

from orchestration.supervision.graphql_documents import MAX_ALIASES, MAX_DEPTH, DocumentRefusedError, operations

SPREAD_TWICE = "".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }} " for n in range(40))
HOSTILE = {
    "three megabytes": ("{ version " + " " * 3_000_000 + "}", "characters"),
    "many tokens": ("{ version " + "version " * 6_000 + "}", "tokens"),
    "comments": ("{ version }\n" + "#\n" * 20_000, "comments"),
    "deep": ("{ a" * (MAX_DEPTH + 1) + "}" * (MAX_DEPTH + 1), "deep"),
    "deeper than Python": ("{ a" * 2_000 + "}" * 2_000, "deep"),
    "deep lists": ("{ a(x: " + "[" * 2_000 + "]" * 2_000 + ") }", "deep"),
    "deep through fragments": (
        "{ ...f0 } " + "".join(f"fragment f{n} on Query {{ a {{ ...f{n + 1} }} }} " for n in range(200)) + "fragment f200 on Query { a }",
        "deep",
    ),
    "many aliases": ("{" + " ".join(f"a{n}: version" for n in range(MAX_ALIASES + 1)) + "}", "aliases"),
    "aliases in a fragment": (
        "{ " + " ".join(f"b{n} {{ ...f }}" for n in range(10)) + " } fragment f on Query { "
        + " ".join(f"a{n}: version" for n in range(10)) + " }",
        "aliases",
    ),
    "one field again and again": ("{ " + "version " * 1_000 + "}", "repeats"),
    "one field again and again below another": ("{ " + ("a { " + "x " * 50 + "} ") * 50 + "}", "repeats"),
    "fragments that double": (f"{{ ...f0 }} {SPREAD_TWICE} fragment f40 on Query {{ version }}", "fields"),
    "a fragment in itself": ("{ ...f } fragment f on Query { ...f }", "contains itself"),
    "no GraphQL": ("{", "refused"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_document_that_asks_for_too_much_is_refused_with_its_limit(name: str) -> None:
    text, limit = HOSTILE[name]
    with pytest.raises(DocumentRefusedError, match=limit):
        operations(text)


def test_ordinary_documents_are_read() -> None:
    assert operations(get_introspection_query()) == {OperationType.QUERY}
    assert operations("query A { version } mutation B { x }") == {OperationType.QUERY, OperationType.MUTATION}
    assert operations("{ a { ...f } b { ...f } ...unknown } fragment f on Query { x: version }") == {
        OperationType.QUERY
    }
