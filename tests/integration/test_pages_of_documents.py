"""Work on all documents of a source reads their rows in pages: a stage that runs alone, a reindex, its estimate, and the preview."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assets import pipeline, preview
from assets.cutover import promote
from assets.index import targets
from assets.reindex import open_reindex
from resources.core.domain import STAGES, SourceName
from resources.embedding import choose
from resources.settings import Settings
from resources.stores.clients import Stores
from resources.stores.postgres import session
from resources.syncs.syncing import SyncJob, open_sync
from sql.rows import Pending
from sql.sync import Documents
from tests.fixtures.installation import Installation
from tests.fixtures.tiny_model import make_tiny_model

PAGE = 4
NUMBER = 11


@pytest.fixture
def pages(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Write documents, let few be in memory at a time, and return how many rows were read at a time."""
    read: list[int] = []
    statement = Documents.pending

    def counted(*args: Any, **kwargs: Any) -> list[Pending]:
        rows = statement(*args, **kwargs)
        read.append(len(rows))
        return rows

    for module in (targets, pipeline, preview):
        monkeypatch.setattr(module, "PENDING_DOCUMENTS", PAGE)
    monkeypatch.setattr(Documents, "pending", counted)
    for number in range(NUMBER):
        installation.write(f"{number:02}.md", f"# Note {number}\n\nThe otter {number} sleeps.\n")
    return read


def test_stages_that_run_alone(installation: Installation, pages: list[int]) -> None:
    for everything in (False, True):
        for stage in STAGES:
            pages.clear()
            with open_sync(installation.settings, SourceName.FILES, requested_by="test") as job:
                job.planned = {stage}
                counts = pipeline.WORK[stage](job, everything=everything).counts
            assert max(pages, default=0) == (0 if stage == "raw" else PAGE)
            documents = {"parsed": "parsed", "chunked": "documents", "embedded": "chunks", "indexed": "documents"}
            if stage != "raw":
                reused = stage == "parsed" and everything
                assert counts["reused" if reused else documents[stage]] == NUMBER
    installation.sync(compare=True)
    assert installation.agrees()


def test_a_reindex_and_its_estimate(installation: Installation, pages: list[int], tmp_path: Path) -> None:
    installation.write("copy.md", (installation.root / "00.md").read_text())
    installation.sync()
    pages.clear()
    with open_reindex(installation.settings) as work:
        made = work.wanted(choose(work.settings, str(make_tiny_model(tmp_path / "tiny")), None))
        estimate = work.estimate(made)
        assert (estimate.documents, estimate.to_embed) == (NUMBER + 1, NUMBER), "a text that two documents have, once"
        assert [one.documents for one in estimate.sources] == [NUMBER + 1]
        made = work.begin(made)
        work.fill(made, lambda _done, _of: None, estimate.to_embed)
        assert work.left(made) == 0
        promote(work, made)
    assert max(pages) == PAGE
    assert len(installation.points()) == NUMBER + 1


@pytest.mark.parametrize("full", [False, True])
def test_the_preview(installation: Installation, pages: list[int], full: bool) -> None:
    installation.sync()
    pages.clear()
    settings = installation.settings.model_copy(update={"chunk_profile": "40/0/10"})
    whole = previewed(settings, full=full)
    assert (whole.documents, whole.split, whole.passages) == (NUMBER, NUMBER, NUMBER)
    assert (whole.fetch, whole.sampled) == (NUMBER if full else 0, PAGE), "a sample of what fits into memory"
    assert max(pages) == PAGE


def previewed(settings: Settings, *, full: bool) -> preview.SourcePreview:
    with session(settings.postgres_dsn, autocommit=True) as connection:
        return preview.preview(SyncJob(Stores(settings, SourceName.FILES, connection)), full=full)
