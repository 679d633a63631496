"""All services with Dagster: uploads are found soon, also those that come while a sync runs; a killed run worker costs one sync."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from assets.index.agreement import changed, ledger
from orchestration.demo.client import Client
from orchestration.diagnosis.outsider import probe
from orchestration.supervision.launcher import WORKER_TAG
from resources.core.domain import SourceName
from resources.syncs.launch import start_sync
from resources.syncs.syncing import open_sync
from tests.fixtures.company import Company
from tests.fixtures.waiting import until

pytestmark = pytest.mark.xdist_group("company")


def upload(client: Client, name: str, text: str) -> dict[str, Any]:
    return client.body("POST", "/api/upload", files={"file": (name, text.encode(), "text/markdown")})


def found(client: Client, word: str) -> list[dict[str, Any]]:
    return client.search(word, 5, mode="keyword")["results"]


@pytest.mark.usefixtures("backfill")  # its run may end while this test waits for uploads
def test_uploads_are_found_by_their_owner_alone_also_those_that_come_during_a_sync(company: Company) -> None:
    # Not of the company's people, whose searches other tests compare with what the sample's files give them.
    owner, other = (Client(company.settings, f"{name}@visitors.example") for name in ("ada", "bob"))
    first = upload(owner, "one.md", "# First\n\nThe word of the first note is zanzibarium.\n")
    second = upload(owner, "two.md", "# Second\n\nThe word of the second note is quixotropolis.\n")
    assert first["doc_id"] != second["doc_id"]
    until(lambda: found(owner, "zanzibarium"), "the first upload found")
    until(lambda: found(owner, "quixotropolis"), "the second upload found")
    assert found(other, "zanzibarium") == found(other, "quixotropolis") == []
    again = upload(owner, "one.md", "# First\n\nThe word of the first note is zanzibarium.\n")
    assert again["doc_id"] == first["doc_id"]
    assert owner.request("DELETE", f"/api/documents/{first['doc_id']}").status_code in (200, 202, 204)
    assert found(owner, "zanzibarium") == []
    until(
        lambda: company.rows("SELECT 1 FROM deletion_receipts WHERE doc_id = %s", first["doc_id"]),
        "the deletion receipt",
    )


def test_somebody_without_keys_gets_nothing_from_the_whole_set(company: Company) -> None:
    outcome = probe(company.settings)
    assert outcome.opened == []
    assert outcome.account or os.geteuid() != 0


# A kill in each of the stages, without Dagster, is in `test_kill`.
@pytest.mark.parametrize("stage", [pytest.param("raw", marks=pytest.mark.slow), "indexed"])
def test_a_killed_run_worker_costs_one_sync(company: Company, backfill: str, stage: str) -> None:
    company.wait_for_run(backfill)  # it syncs the same source
    started = start_sync(company.settings, SourceName.FILES, partitions=None, full=True, requested_by="test")
    job = until(
        lambda: company.rows("SELECT run_id FROM sync_jobs WHERE job_id = %s AND stage = %s", started.job_id, stage),
        f"stage {stage}",
    )
    tag = company.rows(
        "SELECT value FROM dagster.run_tags WHERE run_id = %s AND key = %s", job[0]["run_id"], WORKER_TAG
    )
    os.kill(int(tag[0]["value"].split()[0]), signal.SIGKILL)
    report = company.sync()
    assert report["status"] == "success", report
    ended = company.rows("SELECT status FROM sync_jobs WHERE job_id = %s", started.job_id)
    assert ended == [{"status": "failed"}]
    with open_sync(company.settings, SourceName.FILES, requested_by="test") as opened:
        counts = ledger(opened.stores, None)
        compared = changed(opened.stores, 0)
        assert compared.agrees, compared
    assert (counts["unfinished"], counts["lingering"]) == (0, 0)
    until(
        lambda: company.rows("SELECT 1 FROM dagster.runs WHERE run_id = %s AND status = 'FAILURE'", job[0]["run_id"]),
        "Dagster seeing that the run has failed",
    )
