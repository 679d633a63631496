"""Documents that somebody hands in to be mistaken for something better: sharing, tags, rank, owner's name, take-down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from assets.upkeep.erase import erase
from assets.upkeep.removal import remove
from resources.core.domain import Batch, SourceName
from resources.core.ports import Source
from resources.sources import files, open_source
from tests.fixtures.desk import Desk
from tests.fixtures.serving import Running, Site
from tests.fixtures.shelf import Shelf

ADA, BOB, EVE, ROOT = "ada@acme.example", "bob@acme.example", "eve@stranger.example", "root@acme.example"
POLICY = "Parental leave is twenty weeks, and the form goes to the people team."


def upload(
    running: Running, who: str, *groups: str, admin: bool = False, **metadata: Any
) -> tuple[int, dict[str, Any]]:
    response = running.request(
        "POST", "/api/upload", who, *groups, admin=admin, files={"file": ("policy.md", POLICY.encode())},
        data={"metadata": json.dumps(metadata)},
    )  # fmt: skip
    return response.status_code, response.json()


def test_a_stranger_cannot_share_beyond_the_own_domain(site: Site, running: Running, subtests: pytest.Subtests) -> None:
    for share in ["public", "domain:acme.example", ADA, "group:hr@acme.example", "slack:T1", "domain:example"]:
        with subtests.test(share=share):
            status, body = upload(running, EVE, title="HR policy", share=[share])
            assert (status, body["type"].rpartition("/")[2]) == (403, "sharing-not-allowed"), body
            assert body["detail"].startswith(f"share: {share} is outside of your domain and groups.")
            inline = {"content": POLICY, "tags": {"tenant": "x", "dataset": "y"}, "share": [share]}
            assert running.request("POST", "/api/ingest", EVE, json=inline).status_code == 403
            assert site.sql("SELECT 1 FROM uploads") == []


def test_people_share_within_their_domain_and_groups(running: Running, subtests: pytest.Subtests) -> None:
    for share in ["domain:acme.example", ADA, "group:hr@acme.example", "group:eng@partner.example"]:
        with subtests.test(share=share):
            assert upload(running, BOB, "eng@partner.example", share=[share])[0] == 202


def test_administrators_share_with_anyone(running: Running) -> None:
    assert upload(running, ROOT, admin=True, share=["public", "domain:elsewhere.example"])[0] == 202


@pytest.mark.parametrize("name", ["source", "tenant", "dataset"])
def test_tags_that_say_where_a_document_comes_from_are_reserved(site: Site, running: Running, name: str) -> None:
    status, body = upload(running, BOB, tags={name: "handbook"})
    assert (status, body["detail"].partition(":")[0]) == (400, f"tags.{name}")
    assert site.sql("SELECT 1 FROM uploads") == []
    assert upload(running, BOB, tags={"topic": "leave"})[0] == 202


def test_another_persons_upload_ranks_below_a_managed_document_and_names_its_owner(
    site: Site, running: Running
) -> None:
    shared = ["domain:acme.example"]
    site.add("Handbook", [POLICY + " Ask before June."], shared, source_id="handbook")
    site.add(
        "HR policy", [POLICY + " Ask before May."], shared, source=SourceName.UPLOAD, owner=BOB, source_id="planted"
    )
    found = running.search("How long is parental leave?", ADA, explain=True)["results"]
    assert [result["title"] for result in found] == ["Handbook", "HR policy"]
    assert found[1]["owner"] == BOB
    assert found[1]["explain"]["boosts"] == {"recency": 1.0, "others_upload": 0.95}
    assert f"HR policy (Upload by {BOB}, " in found[1]["citation"]["text"]
    own = running.search("How long is parental leave?", BOB, explain=True)["results"]
    assert {tuple(result["explain"]["boosts"]) for result in own} == {("recency",)}
    answer = running.request("POST", "/api/ask", ADA, json={"query": "How long is parental leave?"}).json()
    assert f"Upload by {BOB}" in json.dumps(answer)


def test_administrators_take_an_upload_down_for_good(site: Site, running: Running) -> None:
    doc_id = upload(running, BOB, title="HR policy", share=["domain:acme.example"])[1]["doc_id"]
    assert running.request("DELETE", f"/api/documents/{doc_id}", ADA).status_code == 404
    for _ in range(2):  # the second is a repetition of the first
        assert running.request("DELETE", f"/api/documents/{doc_id}", ROOT, admin=True).status_code == 200
    status, body = upload(running, BOB, title="HR policy")
    assert (status, "taken this document down" in body["detail"]) == (400, True)
    running.settle()
    audit = "SELECT email, detail FROM audit_log WHERE action = 'take_down'"
    assert site.sql(audit) == [(ROOT, {"owner": BOB})]


def ingest(desk: Desk, who: str, **body: Any) -> str:
    response = desk.running.request("POST", "/api/ingest", who, json=body)
    assert response.status_code == 202, response.text
    return response.json()["doc_id"]


def copies(desk: Desk, query: str, who: str, *groups: str) -> list[str]:
    return desk.running.titles(query, who, *groups, filters={"source_types": ["upload"]})


def test_a_copy_loses_its_rights_with_the_original(desk: Desk) -> None:
    desk.installation.write("moon.md", "The moonstone lies under the stairs.", permissions=[ADA, BOB])
    desk.installation.sync()
    ingest(desk, BOB, blob_path="docs/moon.md", share=[ADA])
    desk.installation.sync(SourceName.UPLOAD)

    def readers() -> list[str]:
        return [who for who in (ADA, BOB) if copies(desk, "Where is the moonstone?", who)]

    assert readers() == [ADA, BOB]
    desk.installation.write("moon.md", "The moonstone lies under the stairs.", permissions=[BOB])
    desk.installation.sync()
    assert readers() == [BOB], "the sync of the original takes the right away from the copy at once"
    assert frozenset([BOB]) in desk.installation.withheld().readers.values(), "searches without Postgres know it, too"
    desk.installation.sync(SourceName.UPLOAD)
    assert readers() == [BOB]
    assert {tuple(point["permissions"]) for point in desk.installation.points() if "moonstone" in str(point)} == {
        (BOB,)
    }
    (desk.installation.root / "moon.md").unlink()
    desk.installation.sync()
    assert readers() == []
    desk.installation.sync(SourceName.UPLOAD)
    assert readers() == []


def test_a_copy_made_through_a_group_is_readable_while_the_group_may_read_the_original(desk: Desk) -> None:
    group = "group:eng@acme.example"
    desk.installation.write("opal.md", "The opal lies in the well.", permissions=[group])
    desk.installation.sync()
    response = desk.running.request("POST", "/api/ingest", EVE, "eng@acme.example", json={"blob_path": "docs/opal.md"})
    assert response.status_code == 202, response.text
    desk.installation.sync(SourceName.UPLOAD)
    assert copies(desk, "Where is the opal?", EVE) == ["opal.md"]
    desk.installation.write("opal.md", "The opal lies in the well.", permissions=[ADA])
    desk.installation.sync()
    assert copies(desk, "Where is the opal?", EVE) == []


def test_a_copy_loses_its_rights_before_the_listing_of_the_original_ends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BATCH", 1)  # each folder is a batch
    desk.installation.write("a/jade.md", "The jade is in the cellar.", permissions=[ADA, BOB])
    desk.installation.sync()
    copy = ingest(desk, BOB, blob_path="docs/a/jade.md", share=[ADA])
    desk.installation.sync(SourceName.UPLOAD)
    desk.installation.write("a/jade.md", "The jade is in the cellar.", permissions=[BOB])
    seen: list[list[str]] = []

    class Watched:
        def __init__(self, port: Source) -> None:
            self._port = port

        def __getattr__(self, name: str) -> Any:
            return getattr(self._port, name)

        def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
            for batch in self._port.changes(partition, cursor):
                yield batch
                if any(item.locator == "a/jade.md" for item in batch.seen):
                    (row,) = desk.installation.rows("SELECT permissions FROM documents WHERE doc_id = %s", copy)
                    seen.append(row["permissions"])

    port: Any = Watched(open_source(desk.installation.settings, SourceName.FILES))
    desk.installation.sync(port=port)
    assert seen == [[BOB]]


def test_a_copy_of_a_removed_root_has_no_readers(desk: Desk) -> None:
    desk.installation.write("onyx.md", "The onyx is on the roof.", permissions=[ADA, BOB])
    desk.installation.sync()
    ingest(desk, BOB, blob_path="docs/onyx.md", share=[ADA])
    desk.installation.sync(SourceName.UPLOAD)
    assert copies(desk, "Where is the onyx?", ADA) == ["onyx.md"]
    remove(desk.installation.settings, SourceName.FILES, ["docs"])
    assert [copies(desk, "Where is the onyx?", who) for who in (ADA, BOB)] == [[], []]
    desk.installation.sync(SourceName.UPLOAD)
    assert [copies(desk, "Where is the onyx?", who) for who in (ADA, BOB)] == [[], []]


def test_a_copy_whose_original_was_erased_before_it_could_follow_has_no_readers(desk: Desk) -> None:
    desk.installation.write("beryl.md", "The beryl is by the gate.", permissions=[ADA, BOB])
    desk.installation.sync()
    copy = ingest(desk, BOB, blob_path="docs/beryl.md", share=[ADA])
    desk.installation.sync(SourceName.UPLOAD)
    (row,) = desk.installation.rows("SELECT origin_readers FROM uploads WHERE doc_id = %s", copy)
    remove(desk.installation.settings, SourceName.FILES, ["docs"])
    erase(desk.installation.settings, after=timedelta())
    assert desk.installation.rows("SELECT 1 FROM documents WHERE source = 'files'") == []
    # as versions left it that did not let copies follow a removal
    desk.installation.rows(
        "UPDATE uploads SET origin_readers = %s WHERE doc_id = %s RETURNING 1", row["origin_readers"], copy
    )
    desk.installation.rows("UPDATE documents SET permissions = %s WHERE doc_id = %s RETURNING 1", [ADA, BOB], copy)
    desk.installation.sync(SourceName.SLACK, port=Shelf())
    assert [copies(desk, "Where is the beryl?", who) for who in (ADA, BOB)] == [[], []]


def test_a_draft_cannot_be_copied_by_those_who_may_not_read_it(desk: Desk) -> None:
    desk.installation.write(
        "draft.md",
        "The ruby is in the attic.",
        permissions=["domain:acme.example"],
        owner=ADA,
        tags={"lifecycle": "draft"},
    )
    answer = desk.running.request("POST", "/api/ingest", BOB, json={"blob_path": "docs/draft.md"})
    assert answer.status_code == 404


def test_an_outsider_cannot_claim_the_tenant_of_a_file_root(desk: Desk) -> None:
    body = {"content": POLICY, "tags": {"tenant": "acme", "dataset": "docs"}}
    answer = desk.running.request("POST", "/api/ingest", EVE, json=body)
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (400, "tags.tenant")
    body["tags"]["source"] = "files"  # type: ignore[index]
    assert desk.running.request("POST", "/api/ingest", BOB, json=body).status_code == 400
