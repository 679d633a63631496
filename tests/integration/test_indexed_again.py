"""What is indexed again: previewed, limited by run, stopped by the budget, and continued by the next sync, with nothing embedded twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from assets import pipeline
from assets.chunked import TABLE as CHUNKED
from assets.parsed import TABLE as PARSED
from assets.parsing.pool import ParseJob, ParseOutcome, ParserPool
from assets.preview import SourcePreview, preview
from assets.upkeep.erase import erase
from orchestration.cli import run as command
from orchestration.cli.syncing import read_job
from orchestration.supervision.environment import child_environment
from resources.core.domain import STAGES, Batch, SourceName, State
from resources.core.errors import AbortSyncError, BudgetExceededError
from resources.stores.blobs import Blobs
from resources.stores.clients import Stores
from resources.stores.lake import Lake
from resources.stores.lake_erasure import drop_matching
from resources.stores.postgres import session
from resources.stores.uploads import NewUpload, record
from resources.syncs.syncing import SyncJob, open_sync
from tests.fixtures.desk import ADA, Desk
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer
from tests.integration.test_new_parser import MODULES
from tests.integration.test_remote_sources import ScriptedSource, complete, item, sync

ANIMALS = ("zebra", "otter", "heron", "badger", "lynx", "stork", "marten", "ibex", "beaver", "osprey", "vole", "mink")
LIMIT = 5
MANY = 200
"""Documents of which a share passes at once and another is a wave, so that a budget of a third ends between the two."""


def page(animal: str) -> str:
    parts = ("sleeps in its den by day", "eats at dusk and drinks at dawn", "raises its young in the reeds")
    return f"# Keeping a {animal}\n\n" + "".join(
        f"The {animal} {part}. It takes {' and '.join([animal] * 12)} to see why.\n\n" for part in parts
    )


@pytest.fixture
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=48) as server:
        yield server


@pytest.fixture
def served(installation: Installation, service: OpenAIServer) -> Installation:
    """Twelve documents, indexed with an embedding service that counts what it is asked for."""
    change(
        installation,
        embedding_provider="openai",
        embedding_model="word-counts",
        openai_base_url=service.url,
        openai_api_key=SecretStr("test"),
    )
    for animal in ANIMALS:
        installation.write(f"{animal}.md", page(animal))
    installation.sync()
    return installation


def change(installation: Installation, **settings: Any) -> None:
    installation.settings = installation.settings.model_copy(update=settings)


def texts(service: OpenAIServer) -> list[str]:
    """Return the texts of documents that the service was asked for."""
    return [text for request in service.requests for text in request["input"] if text not in ("dimensions", "warm up")]


def backfill(installation: Installation) -> SyncJob:
    """Do what a backfill of the five assets does."""
    with open_sync(installation.settings, SourceName.FILES, partitions=["docs"], requested_by="backfill") as job:
        job.planned = set(STAGES)
        for stage in STAGES:
            job.run(stage, partial(pipeline.WORK[stage], job, everything=True))
        installation.last = {stage: result.counts for stage, result in job.results.items()}
    return job


def split_smaller(installation: Installation, _patch: pytest.MonkeyPatch) -> SyncJob:
    change(installation, chunk_profile="40/0/10")
    return installation.sync()


def parse_anew(installation: Installation, patch: pytest.MonkeyPatch) -> SyncJob:
    for module in MODULES:
        patch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
    return installation.sync()


CHANGES: dict[str, Callable[[Installation, pytest.MonkeyPatch], SyncJob]] = {
    "profile": split_smaller,
    "parser": parse_anew,
    "full sync": lambda installation, _: installation.sync(full=True),
    "backfill": lambda installation, _: backfill(installation),
}


def warnings(installation: Installation, job: SyncJob) -> list[str]:
    rows = installation.rows(
        "SELECT reason FROM sync_errors WHERE job_id = %s AND outcome = 'warning' AND source_id = ''", job.job_id
    )
    return [row["reason"] for row in rows]


@pytest.mark.parametrize("what", CHANGES)
def test_a_limited_run_leaves_the_rest_to_the_next(
    what: str, served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(served, reindex_documents=LIMIT)
    first = CHANGES[what](served, monkeypatch)
    assert served.last["indexed"]["documents"] == LIMIT
    said = (
        f"5 documents were indexed again, and {len(ANIMALS) - LIMIT} are left: CONCORDANCE_LIMITS__REINDEX_DOCUMENTS is 5. They are "
        "found as they are, and the next sync continues with them."
    )
    assert warnings(served, first) == [said]
    assert (first.error, first.remaining) == (None, said)
    assert {point["path"] for point in served.points()} == {f"{animal}.md" for animal in ANIMALS}
    served.write("crane.md", page("crane"))  # what is new does not wait
    assert (served.sync().error, served.last["indexed"]["documents"]) == (None, LIMIT + 1)
    last = served.sync()
    assert served.last["indexed"]["documents"] == len(ANIMALS) - 2 * LIMIT
    assert warnings(served, last) == []
    assert served.sync().counts.synced == 0
    assert served.rows("SELECT * FROM index_work") == []
    assert served.agrees()
    asked = texts(service)
    assert len(asked) == len(set(asked))
    parsed = Lake(served.settings.lake_address).scan(PARSED).select("content_key", "parser_version").collect()
    assert parsed.height == parsed.unique().height
    versions = {"parser": 2 * len(ANIMALS) + 1}
    assert parsed.height == versions.get(what, len(ANIMALS) + 1)


@pytest.mark.parametrize("what", CHANGES)
def test_a_limit_of_none_holds_everything_but_new_documents(
    what: str, served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(served, reindex_documents=0)
    served.write("crane.md", page("crane"))
    job = CHANGES[what](served, monkeypatch)
    assert warnings(served, job) == [
        "No document was indexed again, and 12 are left: CONCORDANCE_LIMITS__REINDEX_DOCUMENTS is 0. They are found as they are, and will "
        "be until that is raised."
    ]
    assert served.last["indexed"]["documents"] == 1
    assert served.last["parsed"]["parsed"] == 1
    change(served, reindex_documents=None)
    served.sync()
    assert served.last["indexed"]["documents"] == len(ANIMALS)
    assert served.agrees()


def test_people_and_programs_are_told_the_same(desk: Desk) -> None:
    change(desk.installation, reindex_documents=1)
    desk.installation.write("otter.md", page("otter"))
    job = desk.installation.sync(full=True)
    answer = desk.running.request("GET", f"/api/sync/status/{job.job_id}", ADA, admin=True).json()
    assert (answer["status"], answer["error_message"]) == ("success", None)
    assert [(one["file_id"], one["outcome"], one["error"]) for one in answer["errors"]] == []
    desk.installation.sync()
    job = desk.installation.sync(full=True)
    answer = desk.running.request("GET", f"/api/sync/status/{job.job_id}", ADA, admin=True).json()
    assert [(one["file_id"], one["outcome"], one["error"]) for one in answer["errors"]] == [
        ("", "warning", job.remaining)
    ]
    (shown,) = read_job(desk.site.settings, job.job_id)["errors"]
    assert shown["reason"] == job.remaining is not None


def test_rejected_documents_count_and_keep_waiting(served: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        served.write(f"blank-{number}.txt", " \n" * (number + 1))
    served.sync()
    assert served.last["parsed"]["skipped"] == 3
    change(served, reindex_documents=LIMIT)
    split_smaller(served, monkeypatch)
    assert served.last["indexed"]["documents"] == LIMIT, "those that are not tried again do not count"
    change(served, chunk_profile="auto")
    assert served.sync().remaining is None
    tried = 0
    for _ in range(3):
        parse_anew(served, monkeypatch)
        tried += served.last["parsed"]["parsed"] + served.last["parsed"]["skipped"]
        assert served.last["parsed"]["documents"] == LIMIT
    assert tried == len(ANIMALS) + 3
    assert served.sync().remaining is None
    assert served.last["parsed"]["parsed"] == served.last["parsed"]["skipped"] == 0
    assert served.rows("SELECT * FROM index_work") == []


def test_the_budget_says_how_far_it_came_and_the_rest_follows(served: Installation, service: OpenAIServer) -> None:
    for number in range(MANY - len(ANIMALS)):
        served.write(f"more-{number:03}.md", page(f"animal{number}"))
    served.sync()
    before = len(texts(service))
    change(served, chunk_profile="40/0/10", embedding_price=1000.0)
    spent = served.rows("SELECT sum(cost_usd) AS spent FROM embedding_usage")[0]["spent"]
    dear = previewed(served)
    assert dear.cost_usd == pytest.approx(dear.tokens / 1000)
    change(served, embedding_budget=spent + dear.cost_usd * 0.35)
    with pytest.raises(BudgetExceededError, match="CONCORDANCE_LIMITS__EMBEDDING_BUDGET"):
        served.sync()
    done = served.rows("SELECT count(*) AS documents FROM active_entries WHERE content LIKE %s", "%40/0/10%")[0][
        "documents"
    ]
    assert (
        done < MANY
    )  # 0 if the first to embed was a wave, which is then left at the error of the documents that pass at once
    assert 0 < len(texts(service)) - before < dear.embed
    (job,) = served.rows("SELECT job_id, status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job["status"] == "failed"
    reasons = served.rows("SELECT reason FROM sync_errors WHERE job_id = %s AND outcome = 'warning'", job["job_id"])
    assert [row["reason"] for row in reasons] == [
        f"{done} of {MANY} documents were indexed before that. The next sync continues with the others."
    ]
    change(served, embedding_budget=None)
    assert served.sync().counts.synced == MANY - done
    asked = texts(service)
    assert len(asked) == len(set(asked))
    assert len(asked) - before == pytest.approx(dear.embed, rel=0.1), "as estimated from half of the documents"
    assert served.agrees()


def test_a_full_sync_that_broke_off_goes_on_with_the_next_and_fetches_nothing_twice(installation: Installation) -> None:
    names = [f"doc{number}" for number in range(6)]
    sync(installation, complete(names))
    (before,) = installation.rows("SELECT min(indexed_at) AS at, count(*) AS documents FROM index_entries")
    assert before["documents"] == 6
    pages = [
        Batch(
            partition="pond",
            seen=[item(name) for name in names[start : start + 2]],
            listing="page",
            cursor=f"page {start}",
        )
        for start in (0, 2)
    ]
    broken = ScriptedSource(batches={"pond": [*pages, AbortSyncError("The listing broke off.")]})
    with pytest.raises(AbortSyncError, match="broke off"):
        installation.sync(SourceName.SLACK, port=broken, full=True)
    assert broken.asked == [("pond", None)]
    assert sorted(broken.fetched) == names[:4]
    rest = sync(installation, complete(names[4:]))
    assert rest.asked == [("pond", "page 2")]
    assert sorted(rest.fetched) == names[4:]
    assert installation.last["indexed"]["documents"] == 6
    assert installation.last["embedded"]["embedded"] == installation.last["parsed"]["parsed"] == 0
    assert installation.rows("SELECT DISTINCT state FROM documents") == [{"state": State.LIVE}]
    after = sync(installation, complete(names))
    assert after.fetched == []
    assert installation.last["indexed"]["documents"] == 0
    assert installation.agrees()


def test_a_full_sync_that_never_began_to_list_is_done_by_the_next(installation: Installation) -> None:
    sync(installation, complete(["a", "b"]))
    broken = ScriptedSource(batches={"pond": [AbortSyncError("The listing broke off.")]})
    with pytest.raises(AbortSyncError, match="broke off"):
        installation.sync(SourceName.SLACK, port=broken, full=True)
    rest = sync(installation, complete(["a", "b"]))
    assert rest.asked == [("pond", None)]
    assert sorted(rest.fetched) == ["a", "b"]
    assert installation.last["indexed"]["documents"] == 2


def test_a_profile_of_ones_own_is_followed_by_every_source(installation: Installation) -> None:
    change(installation, chunk_profile="40/0/10")
    installation.write("zebra.md", page("zebra"))
    blob = Blobs(installation.settings.lake_address).put([page("otter").encode()])
    with session(installation.settings.postgres_dsn) as connection:
        record(connection, NewUpload(
            owner=ADA, content_hash=blob.content_hash, size=blob.size, file_name="otter.md", title=None, description=None,
            mime_type="text/markdown", permissions=[], tags={},
        ))  # fmt: skip
    sizes: list[dict[str, int]] = []
    for profile in ("40/0/10", "auto"):
        change(installation, chunk_profile=profile)
        for source in (SourceName.FILES, SourceName.UPLOAD):
            assert installation.sync(source).error is None
            assert installation.agrees()
        rows = installation.rows(
            "SELECT d.source, count(*)::int AS passages FROM active_chunks JOIN documents AS d USING (doc_id) GROUP BY d.source"
        )
        sizes.append({row["source"]: row["passages"] for row in rows})
    small, large = sizes
    assert large == {"files": 1, "upload": 1}
    assert small == {"files": 4, "upload": 4}


def previewed(installation: Installation, *, full: bool = False, **settings: Any) -> SourcePreview:
    """Return the preview with these settings."""
    wanted = installation.settings.model_copy(update=settings)
    with session(wanted.postgres_dsn, autocommit=True) as connection:
        return preview(SyncJob(Stores(wanted, SourceName.FILES, connection)), full=full)


def test_a_document_whose_bytes_are_lost_is_previewed_without_passages(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in MODULES:
        monkeypatch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
    monkeypatch.setattr(Blobs, "local_path", lambda *_: None)  # as in an object store
    whole = previewed(served)
    next((served.settings.home / "lake" / "blobs").glob("??/??/*")).unlink()
    found = previewed(served)
    assert found.documents == whole.documents == len(ANIMALS)
    assert 0 < found.passages < whole.passages


def stored(installation: Installation) -> tuple[Any, ...]:
    """Return what a preview must not change."""
    tables = ("documents", "index_entries", "index_work", "index_passes", "sync_jobs", "chunks")
    counted = [
        installation.rows(f"SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM {name} AS t")  # noqa: S608 (names)
        for name in tables
    ]
    lake = Lake(installation.settings.lake_address)
    return *counted, *(lake.scan(name).collect().height for name in ("parsed", "chunked"))


def test_the_preview_is_what_the_next_sync_does(
    served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert previewed(served).documents == 0
    before, asked = stored(served), len(service.requests)
    said = previewed(served, chunk_profile="40/0/10", embedding_price=2.0)
    assert stored(served) == before
    assert len(service.requests) == asked
    assert (said.documents, said.fetch, said.parse, said.split) == (len(ANIMALS), 0, 0, len(ANIMALS))
    assert said.sampled is None
    assert said.cost_usd == round(said.tokens / 1e6 * 2, 4)
    assert said.seconds is not None
    assert said.seconds > 0
    assert said.measured == 1
    split_smaller(served, monkeypatch)
    assert served.last["chunked"]["chunks"] == said.passages
    assert served.last["embedded"]["embedded"] == said.embed
    assert served.last["indexed"]["documents"] == said.documents
    assert said.embed > len(ANIMALS)


def test_a_new_parser_that_reads_the_same_needs_no_vector(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in MODULES:
        monkeypatch.setattr(f"assets.{module}.PARSER_VERSION", "p-next")
    before = stored(served)
    said = previewed(served)
    assert stored(served) == before
    assert (said.documents, said.parse, said.split, said.embed, said.tokens) == (12, 12, 12, 0, 0)
    served.sync()
    assert (served.last["parsed"]["parsed"], served.last["embedded"]["embedded"]) == (12, 0)
    assert served.last["indexed"]["points"] == said.passages


def test_a_full_sync_is_previewed(served: Installation) -> None:
    said = previewed(served, full=True)
    assert (said.documents, said.fetch, said.parse, said.split, said.embed) == (12, 12, 0, 0, 0)
    served.sync(full=True)
    assert served.last["raw"]["fetched"] == said.fetch
    assert (served.last["indexed"]["documents"], served.last["indexed"]["points"]) == (said.documents, said.passages)
    assert previewed(served).documents == 0


def test_many_documents_are_estimated_from_a_sample(served: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.backlog.SAMPLE_DOCUMENTS", 4)
    said = previewed(served, chunk_profile="40/0/10")
    assert (said.documents, said.split, said.sampled) == (12, 12, 4)
    split_smaller(served, monkeypatch)
    assert served.last["chunked"]["chunks"] == pytest.approx(said.passages, rel=0.2)


def test_the_command_previews_and_starts_nothing(
    served: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reindex(*arguments: str, **settings: Any) -> tuple[int, str, str]:
        for name, value in child_environment(served.settings.model_copy(update=settings)).items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        status = command(["reindex", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    before = stored(served)
    status, out, _ = reindex()
    assert (status, out) == (
        0,
        "Nothing is indexed again: every document is indexed as the settings and this version want it.\n",
    )
    smaller = {
        "chunk_profile": "40/0/10",
        "embedding_price": 1000.0,
        "embedding_budget": 0.01,
        "reindex_documents": LIMIT,
    }
    status, out, err = reindex(**smaller)
    assert status == 0
    assert "files: 12 documents are indexed again: 0 parsed, 12 split; " in out
    assert "as long as the stages of 1 sync took for as much since " in out
    assert "CONCORDANCE_LIMITS__REINDEX_DOCUMENTS is 5, so this takes 3 runs." in err
    assert "exceeds the rest of this month's budget of $0.01" in err
    status, out, _ = reindex("--full", "--json", **smaller)
    report = json.loads(out)
    (one,) = report["sources"]
    assert (report["limit"], one["source"], one["documents"], one["fetch"]) == (LIMIT, "files", 12, 12)
    assert reindex("--yes")[0] == reindex("--full", "--rollback")[0] == 2
    assert stored(served) == before


def versions(installation: Installation) -> dict[str, Counter[str]]:
    """Return how many contents the lake has texts and passages of, by version."""
    lake = Lake(installation.settings.lake_address)
    found = {
        name: lake.scan(name).select("content_key", column).unique().collect()
        for name, column in ((PARSED, "parser_version"), (CHUNKED, "version"))
    }
    return {name: Counter(rows.to_series(1)) for name, rows in found.items()}


def rows_of(installation: Installation, name: str) -> int:
    return Lake(installation.settings.lake_address).scan(name).collect().height


def outdated(installation: Installation, days: int = 0) -> int:
    """Erase what has been due for these days; return the rows of earlier versions."""
    return erase(installation.settings, after=timedelta(days=days)).outdated


@pytest.mark.parametrize("what", ["parser", "profile"])
def test_rows_of_an_earlier_version_are_erased_once_the_index_has_the_present_one(
    what: str, served: Installation, service: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = versions(served)
    listed = served.rows("SELECT lake_table, key FROM lake_keys ORDER BY lake_table, key")
    CHANGES[what](served, monkeypatch)
    both = versions(served)
    tables = (PARSED, CHUNKED) if what == "parser" else (CHUNKED,)
    assert [len(both[name]) for name in tables] == [2] * len(tables)
    rows = {name: rows_of(served, name) for name in tables}
    assert outdated(served, days=7) == 0
    assert versions(served) == both
    gone = outdated(served)
    after = versions(served)
    assert gone == sum(rows[name] - rows_of(served, name) for name in tables) > 0
    for name in tables:
        assert after[name] == both[name] - before[name]
        assert sum(after[name].values()) == len(ANIMALS)
    assert served.rows("SELECT lake_table, key FROM lake_keys WHERE lake_table < 3 ORDER BY lake_table, key") == [
        one for one in listed if one["lake_table"] < 3
    ]
    assert outdated(served) == 0
    asked = len(texts(service))
    served.sync(full=True)
    backfill(served)
    assert (served.last["parsed"]["parsed"], served.last["chunked"]["chunked"]) == (0, 0)
    assert len(texts(service)) == asked
    assert versions(served) == after
    assert served.agrees()


def test_vectors_of_texts_that_only_an_earlier_version_had_are_erased_next(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(one for one in Lake(served.settings.lake_address).names() if one.startswith("embedded_"))
    split_smaller(served, monkeypatch)
    both = rows_of(served, name)
    outdated(served)
    assert rows_of(served, name) == both
    outdated(served)
    needed = Lake(served.settings.lake_address).scan(CHUNKED).select("text_hash").unique().collect().height
    assert rows_of(served, name) == needed < both
    assert served.agrees()


def test_versions_that_the_index_has_not_left_or_not_reached_stay(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(served, reindex_documents=LIMIT)
    parse_anew(served, monkeypatch)
    assert outdated(served) > 0
    assert sorted(versions(served)[PARSED].values()) == sorted(versions(served)[CHUNKED].values()) == [5, 7]
    change(served, reindex_documents=None, chunk_profile="40/0/10")
    with monkeypatch.context() as patch:
        patch.setattr("assets.steps.embed_missing", stop)
        with pytest.raises(AbortSyncError, match="away"):
            served.sync()
    assert outdated(served) == 0, "the index still has the versions before"
    served.sync()
    assert outdated(served) > 0
    assert list(versions(served)[CHUNKED].values()) == [len(ANIMALS)]
    assert served.agrees()


def stop(*_: Any, **__: Any) -> None:
    raise AbortSyncError("The service is away.")


def test_texts_of_documents_that_a_new_parser_rejects_are_erased(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = ParserPool.run

    def rejected(pool: ParserPool, *queues: Iterator[ParseJob]) -> Iterator[ParseOutcome]:
        for outcome in parse(pool, *queues):
            assert outcome.document is not None
            yield (
                replace(outcome, document=None, skipped=True, error="no")
                if "otter" in outcome.document.text
                else outcome
            )

    monkeypatch.setattr(ParserPool, "run", rejected)
    before = versions(served)
    parse_anew(served, monkeypatch)
    assert served.last["parsed"]["skipped"] == 1
    assert outdated(served) > 0
    after = versions(served)
    assert after[PARSED] == Counter({"p-next": len(ANIMALS)})
    assert list(after[CHUNKED].values()) == [len(ANIMALS) - 1]
    assert not after[CHUNKED] & before[CHUNKED]
    assert served.sync().counts.synced == 0


@pytest.mark.parametrize("table", [PARSED, CHUNKED])
@pytest.mark.parametrize("dropped", [False, True])
def test_an_erasure_of_earlier_versions_that_was_killed_is_completed(
    table: str, served: Installation, monkeypatch: pytest.MonkeyPatch, *, dropped: bool
) -> None:
    def killed(lake: Lake, name: str, *rest: Any) -> int:
        done = drop_matching(lake, name, *rest) if dropped or name != table else 0
        if name == table:
            raise KeyboardInterrupt
        return done

    parse_anew(served, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.drop_matching", killed)
        with pytest.raises(KeyboardInterrupt):
            outdated(served)
    served.sync(full=True)
    assert (served.last["parsed"]["parsed"], served.last["chunked"]["chunked"]) == (0, 0)
    outdated(served)
    assert [len(one) for one in versions(served).values()] == [1, 1]
    assert outdated(served) == 0
    assert served.agrees()


def test_an_erasure_takes_a_part_of_many_earlier_versions(
    served: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_anew(served, monkeypatch)
    monkeypatch.setattr("assets.upkeep.erasure_plan.MOST_OUTDATED", 10)
    left: list[int] = []
    while outdated(served):
        left.append(sum(one.total() for one in versions(served).values()))
    assert left == [38, 28, 24]
