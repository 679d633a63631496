"""The demonstration: index a sample company and ask questions as two of its people.

The data takes the same path as a user's own: the processes of `up`, Dagster runs, tokens and HTTP. Drive and Slack are simulated
unless the settings name real accounts, which are then left alone. The exit status is 0 if every question found its document in the
top 5 for each person who may read it and for no one else.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from orchestration.client import Client
from orchestration.demo import sample
from orchestration.demo.client import DemoClient
from orchestration.demo.simulated import SIMULATORS, simulated, with_running_simulators, with_simulators
from orchestration.supervision import supervisor
from resources import dagster_access
from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.settings import Settings
from resources.sources import label
from resources.stores.postgres import connect
from sql.cli import Demo, UnindexedDocument

USERS = ("helen", "ines")
"""The chief executive and an engineer: each may read documents that the other may not."""
TOP = 5
SOURCE_QUESTIONS = 6
"""Number of questions about Drive and Slack to ask."""


class DemoReport(msgspec.Struct):
    """The result of the demonstration, printed by `concordance demo --json`."""

    documents: int = 0
    chunks: int = 0
    sources: dict[str, int] = {}
    """Documents of each source."""
    left_out: list[UnindexedDocument] = []
    synced: int = 0
    embedded: int = 0
    questions: int = 0
    found: int = 0
    withheld: int = 0
    faults: list[str] = []
    start_seconds: float = 0.0
    sync_seconds: float = 0.0
    seconds: float = 0.0
    urls: dict[str, str] = {}


def run(settings: Settings, *, json: bool = False) -> int:
    """Run the demonstration and return the exit status. Services that it started are stopped in any case."""
    out = Console(stderr=json, highlight=False, soft_wrap=True)
    outcome = DemoReport()
    began = time.monotonic()
    settings = sample.with_sample_roots(settings)
    out.print("[bold]Concordance[/] with the sample company, Larkmoor Instruments.")
    with _services(settings, out, outcome) as running:
        _sync(running, out, outcome)
        _ask_all(running, out, outcome)
        _answer(running, out, outcome)
        outcome.seconds = round(time.monotonic() - began, 1)
        _summary(out, outcome)
    if json:
        Console(soft_wrap=True, highlight=False).print(msgspec.json.encode(outcome).decode(), markup=False)
    return 1 if outcome.faults else 0


@contextmanager
def _services(settings: Settings, out: Console, outcome: DemoReport) -> Generator[Settings]:
    """Use the running services of this HOME, or start them and stop them afterwards; yield their settings."""
    outcome.urls = {
        "Dagster": dagster_access.link(settings),
        "HTTP interface": f"{settings.base_url}/docs",
        "Metrics": f"{settings.base_url}/metrics",
    }
    began = time.monotonic()
    if supervisor.running(settings):
        if not sample.served_by_running(settings):
            raise ConfigurationError(
                f"Concordance is already running in {settings.home}, without the sample company. Stop it and run the "
                "demonstration again (concordance down; concordance demo), or give the demonstration a home of its own: "
                "CONCORDANCE_HOME=.concordance-sample"
            )
        out.print("Using the running services (concordance up); they keep running afterwards.")
        settings = with_running_simulators(settings)
        _add_simulator_urls(settings, outcome)
        yield settings
        return
    settings, more = with_simulators(settings)
    _add_simulator_urls(settings, outcome)
    names = "".join(f", a simulated {label(source)}" for source in simulated(settings))
    with _busy(out, f"Starting Postgres, the vector engine, Dagster, the HTTP interface{names} ..."):
        started = supervisor.start(settings, more)
    outcome.start_seconds = round(time.monotonic() - began, 1)
    out.print(f"All services are ready after {outcome.start_seconds} s.")
    try:
        yield settings
    finally:
        out.print("Stopping the services ...")
        started.stop()


def _add_simulator_urls(settings: Settings, outcome: DemoReport) -> None:
    for simulator in SIMULATORS:
        if simulator.source in simulated(settings):
            address = str(getattr(settings, simulator.url_setting)).removesuffix(simulator.path)
            outcome.urls[f"Simulated {label(simulator.source)}"] = address


def _sync(settings: Settings, out: Console, outcome: DemoReport) -> None:
    """Sync the sources through Dagster and show the progress."""
    began = time.monotonic()
    sources = [SourceName.FILES, *simulated(settings)]
    with (
        DemoClient(settings, "demo@concordance.example") as client,
        _busy(out, f"Indexing {', '.join(label(source) for source in sources)} through Dagster ...") as status,
    ):
        shown: dict[SourceName, str] = {}

        def show(source: SourceName, job: dict[str, Any]) -> None:
            stage = job["stage"] or "waiting for the run"
            shown[source] = stage
            if status is not None:
                stages = ", ".join(f"{label(one)} ({stage})" for one, stage in shown.items())
                status.update(f"Indexing: {stages} ...")

        jobs = client.sync(sources, show)
    outcome.synced = sum(job["documents_synced"] for job in jobs)
    outcome.embedded = sum(job["chunks_embedded"] for job in jobs)
    outcome.sync_seconds = round(time.monotonic() - began, 1)
    for source, job in zip(sources, jobs, strict=True):
        if job["status"] != "success":
            raise ConcordanceError(
                f"The sync of {label(source)} failed: {job['error_message'] or 'no reason given'}. "
                f"See the run at {dagster_access.link(settings, path='/runs')}"
            )
    _read_registry(settings, outcome)
    if outcome.documents == 0:
        raise ConcordanceError(
            f"The sync ended, but no sample data was indexed. See {dagster_access.link(settings, path='/runs')}"
        )
    if outcome.synced == 0 and outcome.embedded == 0:
        out.print(
            f"The index was already up to date: nothing changed, nothing was embedded ({outcome.sync_seconds} s)."
        )
    else:
        out.print(
            f"Indexed {outcome.synced} documents and embedded {outcome.embedded} passages in {outcome.sync_seconds} s."
        )


def _ask_all(settings: Settings, out: Console, outcome: DemoReport) -> None:
    """Ask every question as each user and check the results against that user's permissions."""
    people = sample.people()
    sources = simulated(settings)
    questions = sample.questions()
    questions += [one for one in sample.questions_of_sources()[:SOURCE_QUESTIONS] if one.source in sources]
    for person in (people[name] for name in USERS):
        with Client(settings, person.email, person.groups) as client:
            for question in questions:
                check_results(out, outcome, person, question, client.search(question.question, TOP)["results"])


def check_results(
    out: Console,
    outcome: DemoReport,
    person: sample.SampleReader,
    question: sample.SampleQuestion,
    results: list[dict[str, Any]],
) -> None:
    """Record the result of one question in `outcome`, and print its faults."""
    outcome.questions += 1
    leaks = sorted({result["source_id"] for result in results if not person.reads(result["source_id"])})
    for leak in leaks:
        _fault(out, outcome, f"{person.name} was shown {leak}, which she may not read ({question.question!r}).")
    rank = next((i for i, result in enumerate(results) if result["source_id"] == question.source_id), None)
    if person.id in question.may_not:
        outcome.withheld += rank is None
    elif rank is None:
        got = ", ".join(result["source_id"] for result in results) or "nothing"
        _fault(out, outcome, f"{question.source_id} is not in the top {TOP} of {question.question!r} (found: {got}).")
    else:
        outcome.found += 1


def _answer(settings: Settings, out: Console, outcome: DemoReport) -> None:
    """Print the answers of a few questions for each user, and what was withheld."""
    people = [sample.people()[name] for name in USERS]
    sources = {SourceName.FILES, *simulated(settings)}
    out.print(" and ".join(f"[bold]{person.name}[/], {person.role}," for person in people) + " ask:")
    for question in sample.answered():
        if question.source in sources:
            out.print(f"  [bold]{escape(question.question)}[/]")
            answers: dict[str, list[str]] = {}
            for person in people:
                with Client(settings, person.email, person.groups) as client:
                    lines = answer_lines(out, outcome, person, question, client.ask(question.question))
                answers.setdefault("\n".join(lines), []).append(person.name.split()[0])
            for text, names in answers.items():
                out.print(f"     [cyan]{' and '.join(names)}[/]: {text}")


def answer_lines(
    out: Console,
    outcome: DemoReport,
    person: sample.SampleReader,
    question: sample.SampleQuestion,
    answer: dict[str, Any],
) -> list[str]:
    """Return the lines of an answer for a person: its first sentence and source, or where the answer is that was withheld."""
    for leak in sorted({one["source_id"] for one in answer["sources"] if not person.reads(one["source_id"])}):
        _fault(out, outcome, f"{person.name} was answered from {leak}, which she may not read ({question.question!r}).")
    if person.id in question.may_not:
        return [f"[yellow]withheld[/]: the answer is in {escape(str(question.source_id))}, which she may not read."]
    first = answer["sentences"][0] if answer["sentences"] else None
    if first is None:
        return [escape(answer["answer"])]
    source = answer["sources"][first["citations"][0] - 1] if first["citations"] else None
    where = [f"        {escape(source['citation']['text'])}{escape(_location(source))}"] if source else []
    return [escape(" ".join(first["text"].split())), *where]


def _location(result: dict[str, Any]) -> str:
    parts = [f"page {result['page_start']}"] if result["page_start"] else []
    parts += result["section_path"][-1:]
    return f" · {', '.join(parts)}" if parts else ""


def _fault(out: Console, outcome: DemoReport, text: str) -> None:
    outcome.faults.append(text)
    out.print(f"     [red]WRONG[/]: {escape(text)}")


def _read_registry(settings: Settings, outcome: DemoReport) -> None:
    """Read the counts of indexed documents, and the documents left out with the reasons."""
    which = {
        "roots": [root.name for root in sample.roots()],
        "sources": [source.value for source in simulated(settings)],
    }
    with connect(settings.postgres_dsn, autocommit=True) as connection:
        registry = Demo(connection)
        totals = registry.totals(**which)
        outcome.documents = sum(one.documents for one in totals)
        outcome.chunks = sum(one.chunks for one in totals)
        outcome.sources = {one.source: one.documents for one in totals}
        outcome.left_out = registry.left_out(**which)


def _summary(out: Console, outcome: DemoReport) -> None:
    counts = ", ".join(f"{label(source)} {count}" for source, count in outcome.sources.items())
    out.print(
        f"  {outcome.documents} documents ({counts}) in {outcome.chunks} passages, {outcome.embedded} embedded now; "
        f"{len(outcome.left_out)} could not be read."
    )
    out.print(
        f"  {outcome.questions} answers: {outcome.found} found in the top {TOP}, {outcome.withheld} rightly withheld, "
        f"{len(outcome.faults)} wrong. {outcome.seconds} s in all."
    )
    for fault in outcome.faults:
        out.print(f"  [red]WRONG[/]: {escape(fault)}")


def _busy(out: Console, text: str) -> Any:
    """Show a spinner on a terminal; elsewhere print the line once and yield None."""
    if out.is_terminal:
        return out.status(text)
    out.print(text)
    return nullcontext(None)
