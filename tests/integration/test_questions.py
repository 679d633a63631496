"""The question set and its evaluation over real stores: kept, proposed by feedback, asked as people; recall and leaks in one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from structlog.testing import capture_logs

from orchestration.cli import run as command
from orchestration.definitions import definitions
from orchestration.evaluation.relevance import shown_without_permission
from orchestration.evaluation.runner import EvaluationQuestion, QuestionResult
from resources.core.domain import Access, SourceName, document_id
from resources.core.errors import ServiceUnavailableError
from resources.stores.postgres import session
from tests.fixtures.desk import ADA, Desk
from tests.fixtures.installation import Installation
from tests.fixtures.upkeep import as_environment

BOB = "bob@other.example"
ZEBRA, OTTER, SALARY = "docs/zebra.md", "docs/otter.md", "docs/salary.md"


@pytest.fixture
def zoo(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Three pages for everybody at acme.example, and one of them for Bob, who is not there."""
    as_environment(installation, monkeypatch)
    installation.write("zebra.md", "# Zebras\n\nA zebra gets fresh hay every morning.\n")
    installation.write("otter.md", "# Otters\n\nAn otter eats fish at dusk.\n", permissions=["bob@other.example"])
    installation.write("salary.md", "# Salaries\n\nA keeper of zebras earns 30,000 a year.\n")
    installation.sync()
    return installation


class Console:
    """The command line: exit status, and what `--json` printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, Any]:
        status = command(["questions", *arguments, "--json"])
        said = self._capsys.readouterr()
        return status, json.loads(said.out.splitlines()[-1]) if said.out else said.err


@pytest.fixture
def questions(capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(capsys)


def monthly() -> tuple[dict[str, Any], dict[str, dg.AssetCheckEvaluation], list[str]]:
    """Run the monthly job as Dagster does; return the asset's metadata, its checks, and the alerts."""
    job = definitions().resolve_job_def("monthly_evaluation")
    with capture_logs() as logs:
        result = job.execute_in_process()
    (event,) = result.asset_materializations_for_node("relevance_evaluation")
    checks = {one.check_name: one for one in result.get_asset_check_evaluations()}
    metadata = {name: value.value for name, value in event.metadata.items()}
    return metadata, checks, [line["text"] for line in logs if line["event"] == "alert"]


def test_a_monthly_evaluation_that_fails_says_why(zoo: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ServiceUnavailableError("Qdrant does not answer.")

    monkeypatch.setattr("orchestration.evaluation.relevance.evaluate", fails)
    with pytest.raises(dg.Failure) as raised:
        definitions().resolve_job_def("monthly_evaluation").execute_in_process()
    assert raised.value.description == "Qdrant does not answer."


def test_questions_are_kept_changed_and_removed(zoo: Installation, questions: Console, tmp_path: Path) -> None:
    assert questions("list") == (0, [])
    assert questions("add", "What do zebras eat?", "--document", ZEBRA, "--as", "Ada@acme.example")[0] == 0
    path = tmp_path / "questions.json"
    mine = {"question": "what do otters eat", "documents": [OTTER], "as": BOB, "groups": ["keepers@other.example"]}
    path.write_text(json.dumps([mine, {"question": "pay", "documents": [SALARY, ZEBRA], "as": BOB, "never": True}]))
    assert questions("import", str(path))[0] == 0
    assert questions("import", str(path))[0] == 0  # the same again changes nothing
    assert questions("add", "What do  zebras eat?", "--document", OTTER, "--as", ADA)[0] == 0
    found = questions("list")[1]
    assert [(one["as"], one["question"], one["never"], one["groups"]) for one in found] == [
        (ADA, "What do zebras eat?", False, []),
        (BOB, "what do otters eat", False, ["group:keepers@other.example"]),
        (BOB, "pay", True, []),
    ]
    assert [[document["source_id"] for document in one["documents"]] for one in found] == [
        [OTTER],
        [OTTER],
        [SALARY, ZEBRA],
    ]
    assert {(one["state"], one["origin"]) for one in found} == {("accepted", "command")}
    assert questions("remove", str(found[0]["id"]), "99999") == (1, {"ids": [found[0]["id"]]})
    assert len(questions("list")[1]) == 2


def test_what_cannot_be_a_question_is_said(zoo: Installation, questions: Console, subtests: pytest.Subtests) -> None:
    for arguments, words in [
        (["add", "What?", "--document", "docs/none.md", "--document", ZEBRA, "--as", ADA], "docs/none.md"),
        (["add", "What?", "--document", ZEBRA, "--as", "nobody"], "not an email"),
        (["add", " ", "--document", ZEBRA, "--as", ADA], "empty"),
        (["add", "x" * 1001, "--document", ZEBRA, "--as", ADA], "1001 characters"),
        (["import", "missing.json"], "missing.json"),
        (["remove"], "questions list"),
    ]:
        with subtests.test(arguments=arguments, words=words):
            status, said = questions(*arguments)
            assert (status, words in said) == (2, True), said
            assert questions("list") == (0, [])


def test_recall_and_misses_by_person(zoo: Installation, questions: Console) -> None:
    questions("add", "What does a zebra get in the morning?", "--document", ZEBRA, "--as", ADA)
    questions("add", "When does an otter eat fish?", "--document", OTTER, "--as", BOB)
    status, first = questions("run")
    assert (status, first["passed"], first["previous"]) == (0, True, None)
    assert first["figures"]["recall@10"] == first["figures"]["mrr"] == first["personas"][BOB]["ndcg@10"] == 1
    questions("add", "When does an otter eat fish?", "--document", OTTER, "--document", ZEBRA, "--as", ADA)
    status, second = questions("run")
    assert (status, second["above_floor"]) == (0, True)
    assert second["personas"][ADA]["recall@10"] == 0.75
    assert second["figures"]["recall@10"] == pytest.approx(2.5 / 3, abs=1e-4)
    assert second["previous"]["figures"] == first["figures"]
    (missed,) = second["missed"]
    assert (missed["documents"], missed["reason"]) == ([OTTER], f"is deleted, or {ADA} may not read it")
    kept = zoo.rows("SELECT rank, recall_10 FROM evaluation_results ORDER BY evaluation_id, question_id")
    assert len(kept) == 5
    assert kept[-1]["recall_10"] == 0.5


def test_a_wrong_grant_fails_the_check_for_leaks(zoo: Installation, questions: Console) -> None:
    questions("add", "What does a zebra get in the morning?", "--document", ZEBRA, "--as", ADA)
    # three better documents would hide it from Bob's first ten on another day: only the named one is searched
    questions("add", "When does an otter eat?", "--document", SALARY, "--as", BOB, "--never")
    _, checks, alerts = monthly()
    assert {name: one.passed for name, one in checks.items()} == {"no_leaks": True, "recall_above_floor": True}
    assert alerts == []
    zoo.write(
        "salary.md", "# Salaries\n\nA keeper of zebras earns 30,000 a year.\n", permissions=["domain:other.example"]
    )
    zoo.sync()
    metadata, checks, alerts = monthly()
    assert {name: one.passed for name, one in checks.items()} == {"no_leaks": False, "recall_above_floor": True}
    assert checks["no_leaks"].severity == dg.AssetCheckSeverity.ERROR
    assert (metadata["leaks"], metadata["recall@10"]) == (1, 1)
    (row,) = metadata["leaked"].records
    assert (row.data["as"], row.data["documents"], row.data["reason"]) == (BOB, 1, "must never be found, but was")
    assert len(alerts) == 1
    assert "leaks" in alerts[0]
    assert questions("run")[0] == 1
    salary = document_id(SourceName.FILES, SALARY)
    leaked = zoo.rows("SELECT leaked::text[] FROM evaluation_results WHERE leaked <> '{}'")
    assert leaked == [{"leaked": [salary]}] * 2


def test_recall_below_the_floor_warns_and_alerts(zoo: Installation, questions: Console) -> None:
    questions("add", "When does an otter eat fish?", "--document", OTTER, "--as", ADA)
    _, checks, alerts = monthly()
    assert {name: one.passed for name, one in checks.items()} == {"no_leaks": True, "recall_above_floor": False}
    assert checks["recall_above_floor"].severity == dg.AssetCheckSeverity.WARN
    assert len(alerts) == 1
    assert "0.000 on 1 questions, below the floor of 0.8" in alerts[0]
    assert questions("run")[0] == 1


def test_without_questions_it_says_so_and_passes(zoo: Installation, questions: Console) -> None:
    metadata, checks, alerts = monthly()
    assert "questions add" in metadata["note"]
    assert all(one.passed for one in checks.values())
    assert alerts == []
    status, report = questions("run")
    assert (status, report["passed"], report["figures"]["recall@10"]) == (0, True, None)
    assert zoo.rows("SELECT 1 FROM evaluations") == []


def test_the_directory_is_asked_whom_a_person_belongs_to(zoo: Installation, questions: Console) -> None:
    zoo.write("otter.md", "# Otters\n\nAn otter eats fish at dusk.\n", permissions=["group:keepers@other.example"])
    zoo.sync()
    questions("add", "When does an otter eat fish?", "--document", OTTER, "--as", BOB)
    assert questions("run")[1]["figures"]["recall@10"] == 0
    with session(zoo.settings.postgres_dsn) as connection:
        connection.execute("INSERT INTO source_states (source, directory_at) VALUES ('slack', now())")
        connection.execute("INSERT INTO directory VALUES ('slack', %s, 'group:keepers@other.example')", (BOB,))
    assert questions("run")[1]["figures"]["recall@10"] == 1


def test_what_is_shown_without_a_right_is_a_leak(zoo: Installation) -> None:
    access = Access(email=BOB, principals=frozenset({BOB}))
    asked = EvaluationQuestion(id="1", text="?", documents=frozenset(), access=access)
    salary, otter = (document_id(SourceName.FILES, name) for name in (SALARY, OTTER))
    with session(zoo.settings.postgres_dsn) as connection:
        found = shown_without_permission(connection, [asked], [QuestionResult([[otter, salary]], 0)])
    assert found == {"1": {salary}}


def test_feedback_proposes_and_the_operator_accepts(
    desk: Desk, questions: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_environment(desk.installation, monkeypatch)
    desk.installation.write("hooves.md", "# Hooves\n\nHooves are trimmed twice a year.\n", permissions=[BOB])
    desk.installation.sync()
    zebras, hooves = (document_id(SourceName.FILES, f"docs/{name}.md") for name in ("zebras", "hooves"))

    def say(verdict: str, **body: str) -> None:
        response = desk.running.request(
            "POST", "/api/feedback", ADA, "keepers@acme.example", json={"verdict": verdict, **body}
        )
        assert response.status_code == 201, response.text

    def ask(question: str) -> str:
        response = desk.running.request("POST", "/api/ask", ADA, "keepers@acme.example", json={"query": question})
        return response.json()["answer_id"]

    answered = ask("What do zebras need every morning?")
    say("bad", answer_id=answered)
    say("bad", answer_id=answered, expected_document=hooves)  # hers is no right to read it: nothing is proposed
    assert questions("list") == (0, [])
    say("good", answer_id=answered)
    say("good", answer_id=answered)
    search = desk.running.search("dry stable", ADA)["query_id"]
    say("good", query_id=search)  # which document helped is not said
    say("bad", query_id=search, expected_document=zebras)
    first, second = questions("list")[1]
    assert (first["question"], first["as"], first["groups"]) == (
        "What do zebras need every morning?",
        ADA,
        ["group:keepers@acme.example"],
    )
    assert [document["doc_id"] for document in first["documents"]] == [zebras]
    assert second["question"] == "dry stable"
    assert {(one["state"], one["origin"], one["added_by"]) for one in (first, second)} == {
        ("proposed", "feedback", ADA)
    }
    assert questions("run")[1]["figures"]["questions"] == 0, "what is proposed counts for nothing"
    assert questions("accept", str(first["id"])) == (0, {"ids": [first["id"]]})
    assert questions("accept", str(first["id"]))[0] == 1
    status, report = questions("run")
    assert (status, report["figures"]["questions"], report["figures"]["recall@10"]) == (0, 1, 1)
