"""Every person of the sample company asks every question by every read route: found by those who may, by nobody else."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from orchestration.demo import sample, sample_sources
from orchestration.demo import walkthrough as demo
from orchestration.demo.client import Client
from orchestration.evaluation.question_set import put
from orchestration.evaluation.relevance import evaluate
from resources.core.domain import SourceName
from resources.settings import Settings
from resources.sources.sidecars import SUFFIX
from resources.stores.postgres import session
from tests.fixtures.company import SOURCES, Company
from tests.fixtures.waiting import until

pytestmark = pytest.mark.xdist_group("company")

TOP = 5
MODES = ("hybrid", "vector", "keyword")
ARCHIVED = "company/facilities/office-move-2023.md"
LEFT_OUT = {"company/legal/signed-lease.docx", "handbook/glossary-stub.md"}
PEOPLE = sample.people()
DOZEN = sample.questions()
MORE = sample.questions(more=True)
OF_SOURCES = sample.questions_of_sources()
FILM = "1LK-all-flume-film"
GUEST = "noor.castellan@fjordservice.example"


@cache
def indexed() -> list[str]:
    """Source ids of the documents that should be in the index."""
    files = [
        path.relative_to(sample.FOLDER).as_posix()
        for root in sample.roots()
        for path in (sample.FOLDER / root.name).rglob("*")
        if path.is_file() and not path.name.endswith(SUFFIX)
    ]
    return sorted(set(files) - LEFT_OUT)


@cache
def drive_documents() -> list[str]:
    """Ids of the files of Drive that should be in the index."""
    entries = sample_sources.drive_manifest().items
    return sorted(entry.id for entry in entries if entry.type not in ("folder", "shortcut") and entry.id != FILM)


def everything(company: Company) -> dict[str, str]:
    """Source ids of all three sources by doc_id; what Slack's documents are is read from the registry."""
    slack = [row["source_id"] for row in company.rows("SELECT source_id FROM documents WHERE source = 'slack'")]
    found = {SourceName.FILES: indexed(), SourceName.GOOGLE_DRIVE: drive_documents(), SourceName.SLACK: slack}
    return {company.doc_id(source_id, source): source_id for source, ids in found.items() for source_id in ids}


def leaks(person: sample.SampleReader, results: list[dict[str, Any]]) -> list[str]:
    return [result["source_id"] for result in results if not person.reads(result["source_id"])]


def found_in(company: Company, question: sample.SampleQuestion, results: list[dict[str, Any]]) -> bool:
    """Whether a result is the question's document, or names it among those that hold the very same passage."""
    assert question.source_id
    doc_id = company.doc_id(question.source_id, question.source)
    return any(doc_id in {result["doc_id"], *(place["doc_id"] for place in result["also_in"])} for result in results)


def ask(company: Company, person: str, question: str, **more: Any) -> dict[str, Any]:
    return company.clients[person].search(question, TOP, **more)


def test_the_first_sync_indexes_all_but_the_broken_and_the_short_one(company: Company) -> None:
    # A scheduled sync may have begun before ours: together they did everything once.
    assert company.first_documents == len(indexed())
    errors = company.rows("SELECT DISTINCT source_id, reason FROM sync_errors")
    assert {error["source_id"] for error in errors} == LEFT_OUT | {FILM}
    assert all(error["reason"] for error in errors)
    live = company.rows("SELECT source_id FROM documents WHERE source = 'google_drive' AND state = 'live' ORDER BY 1")
    assert [row["source_id"] for row in live] == drive_documents()


def misplaced(person: str, question: sample.SampleQuestion, mode: str, found: Sequence[str]) -> list[str]:
    """Return what is wrong with the documents that a person's search found: hidden ones, and a missing answer."""
    faults = [f"shows {source_id}" for source_id in found if not PEOPLE[person].reads(source_id)]
    if person in question.may and mode == "hybrid" and question.source_id not in found:
        faults.append(f"does not find {question.source_id}: {list(found)}")
    if person in question.may_not and question.source_id in found:
        faults.append(f"finds {question.source_id}")
    return [f"{person}, {mode}, {question.question!r}: {fault}" for fault in faults]


def test_the_dozen_by_every_mode_cached_and_not(company: Company) -> None:
    asked = list(itertools.product(DOZEN, PEOPLE, MODES))
    # All are asked once before any is asked again: by then the cache, which is filled after an answer has left, has most of them.
    answers = [ask(company, person, question.question, mode=mode) for question, person, mode in asked]
    faults: list[str] = []
    for (question, person, mode), first in zip(asked, answers, strict=True):
        again = _until_cached(company, person, question.question, mode)
        for answer in (first, again):
            faults += misplaced(person, question, mode, [result["source_id"] for result in answer["results"]])
        if [r["chunk_id"] for r in again["results"]] != [r["chunk_id"] for r in first["results"]]:
            faults.append(f"{person}, {mode}, {question.question!r}: other results from the cache")
    assert faults == []


def _until_cached(company: Company, person: str, question: str, mode: str) -> dict[str, Any]:
    """Ask again until the answer comes from the cache."""

    def cached() -> dict[str, Any] | None:
        answer = ask(company, person, question, mode=mode)
        return answer if answer["cached"] else None

    return until(cached, "an answer from the cache")


def test_the_larger_set_by_everybody(company: Company) -> None:
    faults: list[str] = []
    for question, (name, person) in itertools.product(MORE, PEOPLE.items()):
        results = ask(company, name, question.question)["results"]
        faults += [f"{name}, {question.question!r}: shows {source_id}" for source_id in leaks(person, results)]
        if name in question.may and not found_in(company, question, results):
            found = [result["source_id"] for result in results]
            faults.append(f"{name}, {question.question!r}: does not find {question.source_id}: {found}")
    assert faults == []


def test_drive_and_slack_answer_those_who_may_read_it_there(company: Company) -> None:
    known = everything(company)
    faults: list[str] = []
    for question, person, mode in itertools.product(OF_SOURCES, PEOPLE, MODES):
        results = ask(company, person, question.question, mode=mode)["results"]
        faults += misplaced(person, question, mode, [result["source_id"] for result in results])
        elsewhere = [known[place["doc_id"]] for result in results for place in result["also_in"]]
        faults += [
            f"{person}, {mode}, {question.question!r}: names {source_id} as another place"
            for source_id in elsewhere if not PEOPLE[person].reads(source_id)
        ]  # fmt: skip
    assert faults == []


def test_a_guest_of_slack_finds_the_one_channel_she_is_in(company: Company) -> None:
    with Client(company.settings, GUEST) as guest:
        for question in OF_SOURCES:
            results = guest.search(question.question, TOP)["results"]
            assert {result["collection_id"] for result in results} <= {"C0LMSUPPORT"}
        shown = guest.search("gateway at Gamle Bru", TOP)["results"]
    assert shown


def test_answers_of_drive_and_slack_link_to_where_they_stand(company: Company) -> None:
    links = {
        question.source_id: ask(company, question.may[0], question.question)["results"]
        for question in OF_SOURCES if question.may
    }  # fmt: skip
    for source_id, results in links.items():
        assert source_id
        link = next(result["citation"]["link"] for result in results if result["source_id"] == source_id)
        team, _, place = source_id.partition("/")
        if place:
            channel, ts = place.split("/")
            assert link.startswith(f"https://larkmoor.slack.com/archives/{channel}/p"), team
            assert f"p{ts.replace('.', '')}" in link or f"thread_ts={ts}" in link or channel == "C0LMGENERAL"
        else:
            assert link.startswith("https://docs.google.com/")
            assert source_id in link


def test_the_passage_of_each_of_the_dozen_is_cited_at_its_place(company: Company) -> None:
    for question in DOZEN:
        answer = ask(company, question.may[0], question.question, group_by_document=False)
        assert question.phrase
        holding = [
            result for result in answer["results"]
            if result["source_id"] == question.source_id and question.phrase in " ".join(result["chunk_text"].split())
        ]  # fmt: skip
        assert holding, f"no passage with {question.phrase!r} for {question.question!r}"
        result = holding[0]
        if question.place.page is not None:
            assert result["page_start"] <= question.place.page <= result["page_end"]
        assert result["title"] in result["citation"]["text"]
        assert result["citation"]["link"].startswith(("http://", "https://"))


def test_the_question_set_finds_its_documents_and_leaks_nothing(company: Company) -> None:
    with session(company.settings.postgres_dsn) as connection:
        ids = put(connection, sample.question_set(SOURCES), "sample")
        report = evaluate(company.settings, connection)
    everybody = {person.email for person in PEOPLE.values()}
    assert set(report.personas) == everybody, "each person is asked something"
    assert report.figures.questions + report.figures.never == len(ids)
    assert report.leaks == []
    assert report.figures.recall_10 is not None
    assert report.figures.recall_10 >= 0.95, report.missed
    assert report.passed


def test_the_outsider_finds_nothing_whatever_is_asked(company: Company) -> None:
    """The dozen and the questions for Drive and Slack are asked by everyone in every mode above."""
    assert [source_id for source_id in everything(company).values() if PEOPLE["rey"].reads(source_id)] == []
    for question, mode in itertools.product(MORE, MODES):
        assert ask(company, "rey", question.question, mode=mode)["results"] == [], question


def test_documents_open_for_those_who_may_and_do_not_exist_for_others(company: Company) -> None:
    faults: list[str] = []
    for (doc_id, source_id), person in itertools.product(everything(company).items(), PEOPLE):
        response = company.clients[person].request("GET", f"/api/documents/{doc_id}")
        if response.status_code != (200 if PEOPLE[person].reads(source_id) else 404):
            faults.append(f"{person}, {source_id}: {response.status_code}")
        elif response.status_code == 200:
            if response.json()["source_id"] != source_id or not response.json()["text"].strip():
                faults.append(f"{person}, {source_id}: another document, or no text")
        elif source_id in response.text:
            faults.append(f"{person}, {source_id}: named in the refusal")
    assert faults == []


def test_citations_are_made_only_of_readable_documents(company: Company) -> None:
    ids = everything(company)
    for person in PEOPLE:
        body = company.clients[person].body("POST", "/api/citations/format", json={"doc_ids": list(ids)})
        cited = {ids[citation["doc_id"]] for citation in body["citations"]}
        assert cited == {source_id for source_id in ids.values() if PEOPLE[person].reads(source_id)}, person


def test_a_filter_opens_nothing(company: Company) -> None:
    """Naming a hidden document, its root or its tags in the filters shows nothing of it."""
    secret = company.doc_id("company/executive/project-sandpiper.md")
    naming: list[dict[str, Any]] = [
        {"document_ids": [secret]},
        {"collection_ids": ["finance"]},
        {"tags": {"department": "executive"}},
        {"include_archived": True},
    ]
    for filters, mode in itertools.product(naming, MODES):
        answer = ask(company, "ines", "What do we offer for StreamSight?", mode=mode, filters=filters)
        assert leaks(PEOPLE["ines"], answer["results"]) == [], (filters, mode)


def test_the_archived_document_is_found_only_when_asked_for(company: Company) -> None:
    question = "How much did the movers Carrow & Daughters offer?"
    plain = ask(company, "ines", question)
    with_archived = ask(company, "ines", question, filters={"include_archived": True})
    assert ARCHIVED not in [result["source_id"] for result in plain["results"]]
    assert with_archived["results"][0]["source_id"] == ARCHIVED


BACKFILL_STATUS = """
query Status($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status error { message stack } } }
}
"""
ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
RUNS_OF_BACKFILL = """
query Runs($id: String!) {
  runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) {
    ... on Runs { results { runId status eventConnection(afterCursor: null) { events {
      __typename
      ... on MessageEvent { timestamp message level }
      ... on RunFailureEvent { error { message causes { message } } }
      ... on ExecutionStepFailureEvent { error { message causes { message } } }
    } } } }
  }
}
"""


def test_chosen_partitions_are_backfilled_as_the_ui_does_it(company: Company, backfill: str) -> None:
    """Launched in `test_running_set`, whose tests it does not disturb. Dagster takes up to 90 seconds for it, and a minute more after
    a restart of the code server."""
    deadline = time.monotonic() + 240
    while True:
        state = company.graphql(BACKFILL_STATUS, id=backfill)["partitionBackfillOrError"]
        status = state["status"]
        if status in ENDED:
            break
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    runs = {} if status == "COMPLETED_SUCCESS" else company.graphql(RUNS_OF_BACKFILL, id=backfill)
    assert status == "COMPLETED_SUCCESS", json.dumps([state["error"], runs], indent=1)
    jobs = company.rows("SELECT partitions, status, embedded FROM sync_jobs WHERE requested_by = 'backfill'")
    assert jobs == [{"partitions": ["handbook"], "status": "success", "embedded": 0}]


def test_the_demonstration_passes_on_the_running_set_and_its_sync_changes_nothing(
    company: Company, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sample.VARIABLE, "")  # the demonstration sets it; restored when this test ends
    known = everything(company)
    assert demo.run(_as_a_person_would(company.settings), json=True) == 0
    outcome = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert outcome["faults"] == []
    assert outcome["documents"] == len(known)
    assert outcome["sources"] == {"files": 53, "google_drive": len(drive_documents()), "slack": len(known) - 53 - 22}
    counts = company.rows(  # of a scheduled sync, if the demonstration found one at work
        "SELECT DISTINCT ON (source) source, status, synced, deleted, embedded FROM sync_jobs"
        " WHERE completed_at IS NOT NULL AND source = ANY(%s) ORDER BY source, started_at DESC",
        [source.value for source in SOURCES],
    )
    unchanged = {"status": "success", "synced": 0, "deleted": 0, "embedded": 0}
    assert counts == [{"source": source.value, **unchanged} for source in sorted(SOURCES)]
    assert outcome["embedded"] == 0
    assert {row["source_id"] for row in outcome["left_out"]} == LEFT_OUT | {FILM}
    assert (outcome["found"], outcome["withheld"]) == (12 + 9 + 4 + 4, 3 + 2 + 2)


def _as_a_person_would(settings: Settings) -> Settings:
    """The same settings without file roots, Drive and Slack: the demonstration brings them itself."""
    return settings.model_copy(update={"file_roots": (), "drive_token": None, "slack_bot_token": None})
