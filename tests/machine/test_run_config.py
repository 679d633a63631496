"""Full syncs, chosen documents and chosen stages by the configuration of a run."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from resources.bindings import PipelineStage, Syncs
from resources.core.domain import STAGES, SourceName, document_id
from tests.fixtures.dagster_runs import DagsterRuns
from tests.fixtures.upkeep import do


@pytest.fixture
def synced(dagster_runs: DagsterRuns) -> DagsterRuns:
    """Two documents, synced once."""
    dagster_runs.installation.write("grey.txt", "The grey otter of the river sleeps until noon.\n")
    dagster_runs.installation.write("brown.txt", "The brown otter of the lake wakes at noon.\n")
    dagster_runs.sync()
    return dagster_runs


def configured(runs: DagsterRuns, *, succeeds: bool = True, **config: Any) -> dict[str, dict[str, Any]]:
    """Sync with this configuration; return what each stage did, by its name."""
    found = runs.sync(succeeds=succeeds, run_config={"resources": {"syncs": {"config": config}}})
    return {
        stage: {name.removeprefix("run/"): value for name, value in metadata.items() if name.startswith("run/")}
        for (stage, partition), metadata in runs.materializations(found.run_id).items()
        if partition is None
    }


def test_a_full_sync(synced: DagsterRuns) -> None:
    assert configured(synced)["indexed"]["documents_indexed"] == 0
    done = configured(synced, full=True)
    assert done["indexed"]["documents_indexed"] == 2
    assert (done["parsed"]["texts_parsed"], done["embedded"]["passages_embedded"]) == (0, 0)
    assert synced.installation.rows("SELECT full_sync FROM sync_jobs ORDER BY started_at") == [
        {"full_sync": False},
        {"full_sync": False},
        {"full_sync": True},
    ]


@pytest.mark.parametrize("name", ["docs/grey.txt", document_id(SourceName.FILES, "docs/grey.txt")])
def test_chosen_documents(synced: DagsterRuns, name: str) -> None:
    synced.installation.write("new.txt", "A new otter of the river wakes at noon.\n")
    done = configured(synced, documents=[name])
    assert done["raw"]["documents_seen"] == 0
    assert done["parsed"]["documents_checked"] == 1
    assert done["indexed"]["documents_indexed"] == 1
    assert configured(synced)["indexed"]["documents_indexed"] == 1, "the new one waited"


def test_a_chosen_document_that_could_not_be_read_is_tried_again(synced: DagsterRuns) -> None:
    do(
        synced.installation,
        "UPDATE documents SET state = 'failed', stage = 'parsed', reason = 'x', attempts = 3 WHERE source_id = 'docs/grey.txt'",
    )
    done = configured(synced, documents=["docs/grey.txt"])
    assert done["parsed"]["texts_kept"] == 1
    assert synced.installation.rows("SELECT DISTINCT state FROM documents") == [{"state": "live"}]


def test_an_unknown_document_is_named_by_its_place(synced: DagsterRuns) -> None:
    assert configured(synced, succeeds=False, documents=["docs/grey.txt", "docs/none.txt"]) == {}
    said = "Files does not have the documents in entry 2 of `documents` in the run's configuration."
    (job,) = synced.installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job == {"status": "failed", "error_message": said}


def test_chosen_stages(synced: DagsterRuns) -> None:
    synced.installation.write("new.txt", "A new otter of the river wakes at noon.\n")
    done = configured(synced, stages=["raw", "parsed"])
    assert done["raw"]["contents_fetched"] == done["parsed"]["texts_parsed"] == 1
    assert done["indexed"]["documents_indexed"] == done["chunked"]["texts_split"] == 0
    assert set(done) == set(STAGES)
    (job,) = synced.installation.rows("SELECT status FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job["status"] == "success"
    done = configured(synced, stages=["chunked", "embedded", "indexed"])
    assert (done["raw"]["documents_seen"], done["indexed"]["documents_indexed"]) == (0, 1)


def test_every_stage_can_be_chosen() -> None:
    assert tuple(PipelineStage) == STAGES


def test_the_launchpad_describes_every_field() -> None:
    fields = Syncs.to_config_schema().as_field().config_type.fields
    assert set(fields) == {"full", "documents", "stages"}
    assert all(field.description and not field.is_required for field in fields.values())


def test_a_stage_that_does_not_exist_is_refused(synced: DagsterRuns) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type PipelineStage"):
        configured(synced, stages=["guessed"])
