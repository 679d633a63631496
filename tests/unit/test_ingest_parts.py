"""Paths of ingested blobs, references to documents, and the translation of answers for other interfaces."""

from __future__ import annotations

import pytest

from resources.core.domain import SourceName, document_id
from resources.core.errors import InvalidRequestError
from resources.settings import FileRoot
from serving.documents.intake import locate
from serving.search.references import page, reference

ROOTS = [
    FileRoot(name="docs", url="file:///srv/docs", tenant="acme", dataset="docs", base_url="https://book.example/docs"),
    FileRoot(name="legal", url="file:///srv/docs/legal", tenant="acme", dataset="legal"),
    FileRoot(name="lake", url="s3://bucket/prefix", tenant="acme", dataset="lake"),
]


@pytest.mark.parametrize(
    ("blob_path", "place"),
    [
        ("docs/a.md", ("docs", "a.md")),
        ("/docs/deep/a b.md", ("docs", "deep/a b.md")),
        ("file:///srv/docs/a%20b.md", ("docs", "a b.md")),
        ("file:///srv/docs/legal/a.md", ("legal", "a.md")),
        ("s3://bucket/prefix/x/a.md", ("lake", "x/a.md")),
        ("s3://bucket/prefixed/a.md", None),
        ("s3://other/prefix/a.md", None),
        ("other/a.md", None),
        ("docs", None),
    ],
)
def test_a_path_is_located_in_a_root(blob_path: str, place: tuple[str, str] | None) -> None:
    assert locate(ROOTS, blob_path) == place


@pytest.mark.parametrize(
    "blob_path",
    ["https://x.example/a.md", "S3+http://x/a", "gopher://x/a", "//x/a", "docs/../a.md", "docs//a.md", "s3://bucket/prefix/%2e%2e/a.md"],
)  # fmt: skip
def test_paths_out_of_a_root_are_refused(blob_path: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^blob_path: "):
        locate(ROOTS, blob_path)


def test_links_and_ids_are_parsed() -> None:
    drive = document_id(SourceName.GOOGLE_DRIVE, "1XyZ_-a")
    for link in (
        "https://docs.google.com/spreadsheets/d/1XyZ_-a/edit#gid=0",
        "https://docs.google.com/a/acme.com/document/d/1XyZ_-a",
        "https://drive.google.com/uc?export=download&id=1XyZ_-a",
    ):
        assert drive in reference(link).doc_ids
    assert reference("https://evil.example/document/d/1XyZ_-a").doc_ids == ()
    assert reference(drive).doc_ids[-1] == drive
    message = reference("https://acme.slack.com/archives/C01/p1699886400000100")
    assert (message.channel, message.names) == ("C01", ("1699886400.000100",))
    assert message.moment is not None
    assert reference("https://acme.slack.com/files/U1/F0AB/plan.pdf").names == ("F0AB",)
    for nothing in ("", "  ", "x" * 4001, "http://[x#y", "https://[x]/y", "http://[x%23y"):
        with pytest.raises(InvalidRequestError, match=r"^document: "):
            reference(nothing, "document")


def test_a_page_is_looked_up_by_path_and_url() -> None:
    named = page("/docs/intro/setup", ROOTS)
    assert "https://book.example/docs/intro/setup" in named.urls
    assert "intro/setup.md" in named.paths
    assert named.paths.index("docs/intro/setup") < named.paths.index("intro/setup.md")
    assert page("https://book.example/docs/intro#x", ROOTS).paths == []
    assert page("/%00docs/intro#[", ROOTS).paths[:2] == ["docs/intro", "docs/intro.md"]
