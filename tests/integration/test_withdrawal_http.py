"""A deleted or unshared upload stays hidden while Postgres is down, although the index still contains it unchanged."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site
from tests.machine.test_degradation_http import codes, own_postgres, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"
TEXT = "The lighthouse keeper counts ships at night."


def upload(running: Running, *share: str) -> str:
    files = {"file": ("u.txt", TEXT.encode(), "text/plain")}
    answer = running.request("POST", "/api/upload", ANN, files=files, data={"metadata": json.dumps({"share": share})})
    assert answer.status_code == 202, answer.text
    return answer.json()["doc_id"]


def indexed(site: Site, running: Running) -> str:
    """An upload shared with Bob that went through the pipeline; the index never hears of what happens later."""
    doc_id = upload(running, BOB)
    source_id = f"{ANN}:{hashlib.sha256(TEXT.encode()).hexdigest()}"
    site.add("Upload", [TEXT], [ANN, BOB], source=SourceName.UPLOAD, source_id=source_id, owner=ANN)
    return doc_id


def found(running: Running, who: str) -> list[str]:
    """What is found without Postgres."""
    answer = running.search("lighthouse keeper", who)
    assert codes(answer) == ["registry_unavailable"]
    return [one["title"] for one in answer["results"]]


@pytest.mark.parametrize("again", [False, True], ids=["same process", "another process"])
def test_a_deleted_upload_is_not_found_without_postgres(own_postgres: tuple[Site, Any], again: bool) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        doc_id = indexed(site, running)
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        if not again:
            process.stop()
            assert (found(running, ANN), found(running, BOB)) == ([], [])
    if again:
        process.stop()
        with site.running() as running:
            assert (found(running, ANN), found(running, BOB)) == ([], [])


def test_a_narrowed_share_holds_without_postgres(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        indexed(site, running)
        upload(running)  # the same content, shared with nobody now
        process.stop()
        assert (found(running, ANN), found(running, BOB)) == (["Upload"], [])


def test_what_is_shared_again_is_found_again(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        doc_id = indexed(site, running)
        assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
        upload(running, BOB)
        process.stop()
        assert found(running, BOB) == ["Upload"]


def test_a_deletion_that_cannot_be_noted_is_not_made(site: Site, running: Running) -> None:
    doc_id = indexed(site, running)
    rights = site.settings.home / "rights"
    rights.rename(site.settings.home / "elsewhere")
    rights.touch()  # where the folder should be
    refused = running.request("DELETE", f"/api/documents/{doc_id}", ANN)
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/service-unavailable")
    assert running.titles("lighthouse keeper", BOB) == ["Upload"]
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'delete'") == [(0,)]
