"""What the demonstration calls wrong: a document that was not found, and one that was shown to somebody it is not for."""

from __future__ import annotations

import io
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestration.demo import sample
from orchestration.demo import walkthrough as demo
from orchestration.supervision import supervisor
from resources.core.domain import SourceName
from resources.core.errors import NotRunningError
from resources.settings import Settings

SECRET = "company/executive/project-sandpiper.md"
QUESTION = next(question for question in sample.questions() if question.source_id == SECRET)


def hit(source_id: str) -> dict[str, Any]:
    return {
        "source_id": source_id,
        "citation": {"text": "[1] A title (Files, Nov 10)", "link": "http://127.0.0.1:8080/there"},
        "snippet": "some [words] of it",
        "page_start": None,
        "section_path": ["Terms"],
    }


@pytest.mark.parametrize(
    ("person", "shown", "found", "withheld", "faults"),
    [
        ("helen", [SECRET], 1, 0, []),
        ("helen", ["handbook/intro.md"], 0, 0, ["is not in the top 5"]),
        ("helen", [], 0, 0, ["found: nothing"]),
        ("ines", ["handbook/intro.md"], 0, 1, []),
        ("ines", [], 0, 1, []),
        ("ines", [SECRET], 0, 0, ["Ines Okafor was shown"]),
        ("ines", ["finance/budget-2026.xlsx"], 0, 1, ["finance/budget-2026.xlsx"]),
    ],
)
def test_an_answer_is_judged_by_what_the_person_may_read(
    person: str, shown: list[str], found: int, withheld: int, faults: list[str]
) -> None:
    outcome = demo.DemoReport()
    printed = io.StringIO()
    out = Console(file=printed, soft_wrap=True)
    demo.check_results(out, outcome, sample.people()[person], QUESTION, [hit(source_id) for source_id in shown])
    assert (outcome.questions, outcome.found, outcome.withheld) == (1, found, withheld)
    assert len(outcome.faults) == len(faults)
    assert all(words in fault for words, fault in zip(faults, outcome.faults, strict=True))
    assert ("WRONG" in printed.getvalue()) == bool(faults)


def test_what_is_shared_by_link_alone_is_withheld_from_everybody() -> None:
    question = next(question for question in sample.questions_of_sources() if not question.may)
    outcome = demo.DemoReport()
    out = Console(file=io.StringIO())
    for person in (sample.people()[name] for name in demo.USERS):
        demo.check_results(out, outcome, person, question, [])
    assert (outcome.found, outcome.withheld, outcome.faults) == (0, 2, [])
    demo.check_results(out, outcome, sample.people()["helen"], question, [hit(str(question.source_id))])
    assert len(outcome.faults) == 1


def test_the_demonstrations_handful_shows_every_kind_of_answer() -> None:
    handful = sample.questions_of_sources()[: demo.SOURCE_QUESTIONS]
    kinds = {(question.source, *(asker in question.may for asker in demo.USERS)) for question in handful}
    drive, slack = SourceName.GOOGLE_DRIVE, SourceName.SLACK
    assert kinds == {
        (drive, True, True), (drive, False, True), (drive, False, False),
        (slack, True, True), (slack, True, False),
    }  # fmt: skip


def test_a_leak_in_an_answer_is_a_fault() -> None:
    outcome, out = demo.DemoReport(), Console(file=io.StringIO())
    answer = {
        "sources": [hit(SECRET)],
        "sentences": [{"text": "We offer 6.8 million.", "citations": [1]}],
        "answer": "",
    }
    assert "We offer" in demo.answer_lines(out, outcome, sample.people()["helen"], QUESTION, answer)[0]
    assert outcome.faults == []
    assert "withheld" in demo.answer_lines(out, outcome, sample.people()["ines"], QUESTION, answer)[0]
    assert "Ines Okafor was answered from company/executive" in outcome.faults[0]


def test_outcomes_of_two_runs_do_not_share_their_lists() -> None:
    first, second = demo.DemoReport(), demo.DemoReport()
    first.faults.append("x")
    assert second.faults == []


def test_the_command_decides_what_a_signal_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It exits with the number of the signal, and lets no second one interrupt how the services are stopped."""

    def start(*_: object) -> object:
        raise NotRunningError("Postgres does not start.")

    monkeypatch.setattr(demo.sample, "with_sample_roots", lambda settings: settings)
    monkeypatch.setattr(demo, "with_simulators", lambda settings: (settings, []))
    monkeypatch.setattr(supervisor, "start", start)
    before = signal.getsignal(signal.SIGTERM)
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    with pytest.raises(NotRunningError):
        demo.run(settings)
    assert signal.getsignal(signal.SIGTERM) is before
