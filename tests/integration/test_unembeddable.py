"""Texts that an embedding service cannot embed: they fail their documents, and neither the others nor what was embedded before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from assets import embedded, pipeline
from assets.index.targets import active_target, pending_pages
from assets.stages.diff import MAX_ATTEMPTS
from resources.core.domain import Batch, SourceName, State
from resources.core.errors import FailedDocumentError, ServiceUnavailableError
from resources.embedding.openai_compatible import FAILED_TEXTS
from resources.syncs.syncing import open_sync
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.integration.test_remote_sources import ScriptedSource, complete, item


@pytest.fixture
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=48) as server:
        yield server


@pytest.fixture
def served(installation: Installation, service: OpenAIServer) -> Installation:
    installation.settings = installation.settings.model_copy(
        update={
            "embedding_provider": "openai",
            "embedding_model": "word-counts",
            "embedding_batch": 2,
            "openai_base_url": service.url,
            "openai_api_key": SecretStr("test"),
        }
    )
    for name in ("otter", "heron", "lemur", "marten"):
        installation.write(f"{name}.md", f"The {name} sleeps until noon.")
    return installation


def documents(installation: Installation) -> dict[str, tuple[Any, ...]]:
    rows = installation.rows("SELECT title, state, stage, attempts FROM documents WHERE state <> 'live'")
    return {row["title"]: (row["state"], row["stage"], row["attempts"]) for row in rows}


def found(installation: Installation) -> set[str]:
    return {point["chunk_text"].split()[1] for point in installation.points()}


def test_a_text_that_the_service_fails_on_fails_its_document_only(served: Installation, service: OpenAIServer) -> None:
    service.fails_on = "heron"
    for attempt in range(1, MAX_ATTEMPTS + 1):
        job = served.sync()
        assert (job.error, job.counts.failed) == (None, 1)
        assert documents(served) == {"heron.md": ("failed", "embedded", attempt)}
        assert found(served) == {"otter", "lemur", "marten"}
    asked = len(service.requests)
    assert served.sync().counts.failed == 0
    assert len(service.requests) == asked
    service.fails_on = None
    served.write("heron.md", "The heron sleeps until dusk.")
    served.sync()
    assert (documents(served), len(found(served)), served.agrees()) == ({}, 4, True)


def test_a_service_that_fails_on_all_texts_in_small_requests_fails_no_document(
    served: Installation, service: OpenAIServer
) -> None:
    for number in range(FAILED_TEXTS):
        served.write(f"vole-{number}.md", f"The vole number {number} sleeps until noon.")
    service.fails_on = " "
    with pytest.raises(ServiceUnavailableError, match="fails"):
        served.sync()
    assert documents(served) == {}
    service.fails_on = None
    served.sync()
    assert (len(served.points()), served.agrees()) == (FAILED_TEXTS + 4, True)


def test_a_document_with_many_passages_that_the_service_fails_on_stops_no_other(
    served: Installation, service: OpenAIServer
) -> None:
    sections = (f"# Vole {number}\n\n{f'The vole number {number} sleeps. ' * 60}" for number in range(4 * FAILED_TEXTS))
    served.write("vole.md", "\n\n".join(sections))
    service.fails_on = "vole"
    for attempt in (1, 2):
        assert served.sync().error is None
        assert documents(served) == {"vole.md": ("failed", "embedded", attempt)}
    assert found(served) == {"otter", "heron", "lemur", "marten"}


@pytest.mark.parametrize(("attempts", "full"), [(1, False), (MAX_ATTEMPTS, True)])
def test_a_document_that_the_service_embeds_again_is_found(
    served: Installation, service: OpenAIServer, attempts: int, full: bool
) -> None:
    service.fails_on = "heron"
    for _ in range(attempts):
        served.sync()
    service.fails_on = None
    served.sync(full=full)
    assert (documents(served), len(found(served)), served.agrees()) == ({}, 4, True)


def test_attempts_to_embed_a_document_do_not_count_as_refusals_of_its_source(
    served: Installation, service: OpenAIServer
) -> None:
    service.fails_on = "heron"
    for _ in range(MAX_ATTEMPTS - 1):
        served.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    service.fails_on = None
    served.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [complete(["a"])]}))
    changed = Batch(partition="pond", seen=[item("a", version="2")], cursor="2")
    refusal = FailedDocumentError("Permission denied.")
    served.sync(SourceName.SLACK, port=ScriptedSource(batches={"pond": [changed]}, faults={"a": [refusal]}))
    (row,) = served.rows("SELECT state, stage, attempts FROM documents")
    assert (row, len(served.points())) == ({"state": State.LIVE, "stage": "raw", "attempts": 1}, 1)


def test_attempts_to_parse_a_document_do_not_count_as_attempts_to_embed_it(
    served: Installation, service: OpenAIServer
) -> None:
    service.fails_on = "heron"
    served.sync()
    served.rows("UPDATE documents SET stage = 'parsed', attempts = 2 WHERE title = 'heron.md' RETURNING 1")
    served.sync()
    assert documents(served) == {"heron.md": ("failed", "embedded", 1)}


def test_new_bytes_of_a_document_that_cannot_be_embedded_are_still_to_be_read(
    served: Installation, service: OpenAIServer
) -> None:
    service.fails_on = "heron"
    served.sync()
    unread = "UPDATE documents SET state = 'live', stage = 'raw', attempts = -5 WHERE title = 'heron.md' RETURNING 1"
    served.rows(unread)
    served.sync()
    assert documents(served) == {"heron.md": ("failed", "raw", -5)}


def test_a_text_that_only_another_profile_has_fails_no_document(served: Installation, service: OpenAIServer) -> None:
    service.fails_on = "heron"
    served.sync()
    with open_sync(served.settings, SourceName.FILES) as job:
        active = active_target(job.stores)
        target = msgspec.structs.replace(active, collection=msgspec.structs.replace(active.collection, active=False))
        (page,) = pending_pages(job, target, everything=True, rejected=True)
        other = next(name for name in target.profiles if name != page[0].profile)
        moved = [msgspec.structs.replace(one, profile=other) for one in page]
        assert embedded.embed_missing(job, target, moved).touched == set()


def test_what_was_embedded_before_the_service_failed_is_stored(
    served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "REQUESTS_AT_ONCE", 1)  # two texts at a time
    failing: list[bool] = []

    def fail_next(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(rows) == 2 and not failing:
            failing.append(True)
            service.fail(503, times=4, retry_after="0")
        return rows

    service.twist(fail_next)
    with pytest.raises(ServiceUnavailableError), open_sync(served.settings, SourceName.FILES) as job:
        pipeline.sync(job)
    service.twist(lambda rows: rows)
    booked = served.rows("SELECT sum(texts)::int AS texts FROM embedding_usage")[0]["texts"]
    assert served.sync().counts.embedded == 4 - booked
    assert booked == 2
