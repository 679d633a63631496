"""Tags that code and SQL read: what an uploader writes into them has no effect beyond what the documentation says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.core.errors import InvalidRequestError, SkipDocumentError
from resources.core.permissions import PROTECTING, is_local_only, is_unshared
from resources.sources import sidecars
from serving.documents.sharing import PROVENANCE
from tests.fixtures.serving import Running, Site
from tests.integration.test_push_http import BOT, push, with_publishers

ROOT = Path(sidecars.__file__).parents[2]
ANN, EVE = "ann@acme.com", "eve@acme.com"
READ = {
    "answer_sharing": "protects",
    "channel": "of Slack alone",
    "dataset": "reserved",
    "external_id": "the uploader's own name of the document",
    "kind": "of file roots alone; elsewhere only how the document itself is read",
    "language_model": "protects",
    "lifecycle": "protects; `archived` hides it from searches",
    "participants": "of Slack alone",
    "source": "reserved",
    "tenant": "reserved",
    "thread": "of Slack alone",
}
"""Every tag that code or SQL reads, and what it does in an upload."""
CONSTANTS = {
    "LANGUAGE_MODEL": "language_model", "ANSWER_SHARING": "answer_sharing", "LIFECYCLE": "lifecycle", "OWN_ID_TAG": "external_id",
}  # fmt: skip


def read_tags() -> set[str]:
    """Return the tags that the source code reads or writes by name."""
    found: set[str] = {*PROVENANCE, *PROTECTING, *sidecars.REQUIRED}
    for path in [
        *ROOT.glob("sql/**/*.sql"),
        *(one for top in ("resources", "assets", "serving") for one in ROOT.glob(f"{top}/**/*.py")),
    ]:
        if "simulator" in path.parts or path.name == "errors.py":
            continue
        text = path.read_text()
        found.update(re.findall(r"\btags ->>? '(\w+)'", text))
        found.update(re.findall(r"\btags @> '\{\"(\w+)\"", text))
        found.update(re.findall(r"\btags(?:\.get\(|\[)\"(\w+)\"", text))
        found.update(re.findall(r"\"tags\.(\w+)\"", text))
        found.update(
            CONSTANTS[name]
            for name in re.findall(r"(?:tags\.get\(|_says\(tags, |\{)([A-Z_]{5,})\b(?:[,):])", text)
            if name in CONSTANTS
        )
    return found


def test_every_tag_that_is_read_by_name_is_listed() -> None:
    assert read_tags() == set(READ)


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_participants_of_an_upload_write_nothing(site: Site, running: Running, mode: str) -> None:
    site.add(
        "invoices", ["Invoices are paid within thirty days, says the thread."], [ANN], source=SourceName.SLACK, source_id="C1/1/1",
        author="Helen Ferris", tags={"participants": ["Helen Ferris"], "channel": "money", "thread": True},
    )  # fmt: skip
    for source in (SourceName.UPLOAD, SourceName.PUSH, SourceName.FILES):
        site.add(
            f"planted {source.value}", ["Invoices are paid to the account of Eve."], [ANN], source=source, source_id=f"{EVE}:1", owner=EVE,
            author=EVE, tags={"participants": ["Helen Ferris"]},
        )  # fmt: skip
    body: dict[str, Any] = {"filters": {"authors": ["Helen Ferris"]}, "mode": mode, "facets": ["author"], "top_k": 10}
    found = running.search("invoices", ANN, **body)
    assert [one["title"] for one in found["results"]] == ["invoices"]
    listed = running.request("GET", "/api/documents", ANN, params={"author": "Helen Ferris"}).json()
    assert [one["title"] for one in listed["documents"]] == ["invoices"]
    everything = running.search("invoices", ANN, mode=mode, facets=["author"], top_k=10)
    authors = {one["value"]: one["count"] for one in everything["facets"]["author"]}
    assert authors["Helen Ferris"] == 1
    asked = running.search("what did Helen Ferris write about invoices", ANN, mode=mode, top_k=10, understand=True)
    assert [one["kind"] for one in asked["understood"]] == ["author"]
    assert [one["title"] for one in asked["results"]] == ["invoices"]


def test_participants_of_an_upload_write_nothing_without_the_index(site: Site, running: Running) -> None:
    site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    site.add(
        "planted",
        ["Invoices are paid to the account of Eve."],
        [ANN],
        source=SourceName.UPLOAD,
        source_id="x",
        tags={"participants": ["Helen"]},
    )
    with site.running() as other:
        assert other.titles("invoices", ANN, mode="keyword") == ["planted"]
        assert other.titles("invoices", ANN, mode="keyword", filters={"authors": ["Helen"]}) == []


def test_the_channel_of_an_upload_names_no_collection(site: Site, running: Running) -> None:
    site.add(
        "planted", ["Text."], [ANN], source=SourceName.UPLOAD, source_id="x", partition="2026-01-01", collection_ids=["2026-01-01"],
        tags={"channel": "management"},
    )  # fmt: skip
    (one,) = running.request("GET", "/api/collections", ANN).json()["collections"]
    assert one["name"] == "2026-01-01"


@pytest.mark.parametrize("value", [["local"], ["draft"], True, 1, ["nobody", "x"]])
@pytest.mark.parametrize("name", PROTECTING)
def test_a_tag_that_protects_is_a_text_at_every_door(site: Site, name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=f"the tag '{name}' must be a text"):
        sidecars.check_plain({name: value})
    for sidecar in ({name: value}, {"tags": {name: value}}):
        with pytest.raises(SkipDocumentError, match="must be a text"):
            sidecars.parse(json.dumps(sidecar).encode())
    with with_publishers(site).running() as running:
        assert push(running, tags={name: value}).status_code == 400
        metadata = {"metadata": json.dumps({"tags": {name: value}})}
        refused = running.request("POST", "/api/upload", BOT, files={"file": ("x.md", b"Text.")}, data=metadata)
        assert refused.status_code == 400, refused.text
        assert name in refused.json()["detail"]


def test_a_list_that_is_stored_already_protects() -> None:
    assert is_local_only({"language_model": ["Local"]})
    assert is_unshared({"answer_sharing": ["nobody", "x"]})
    assert not is_local_only({"language_model": ["remote"]})


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_values_of_facets_find_numbers_and_booleans(site: Site, running: Running, mode: str) -> None:
    tags = {"year": 2024, "approved": True, "rate": 1.5, "codes": [7, "A"], "text": "2024"}
    site.add("typed", ["The rent of the Oslo office rises in spring."], [ANN], tags=tags)
    site.add(
        "other",
        ["The rent of the Oslo office falls."],
        [ANN],
        tags={"year": 2025, "approved": False, "rate": 2, "codes": ["B"], "text": ""},
    )
    facets = running.search("rent of the Oslo office", ANN, mode=mode, facets=[f"tags.{name}" for name in tags])[
        "facets"
    ]
    for name in tags:
        for counted in facets[f"tags.{name}"]:
            found = running.search(
                "rent of the Oslo office", ANN, mode=mode, filters={"tags": {name: counted["value"]}}
            )
            assert len(found["results"]) == counted["count"], (name, counted)
            if name != "text" and counted["value"]:
                listed = running.request(
                    "GET", "/api/documents", ANN, params={"tag": f"{name}:{counted['value']}"}
                ).json()
                assert len(listed["documents"]) == counted["count"], (name, counted)
