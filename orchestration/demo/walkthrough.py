"""The demonstration: the sample company goes through the whole platform, and two of its people ask some questions.

Enter: settings. Leave: lines for a person (progress, results with citation and link, addresses, a summary), one JSON
line on request, and an exit status: 0 when every question found its document in the top 5 for whoever may read it, and
for nobody else. Everything goes the way a user's own data would: `up`'s processes, Dagster runs, tokens and HTTP. Drive and Slack
are simulators that speak the real interfaces, unless the settings name a person's own: then those are left alone.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from orchestration.demo import sample
from orchestration.demo.client import Client
from orchestration.demo.simulated import SIMULATORS, simulated, with_running_simulators, with_simulators
from orchestration.supervision import supervisor
from resources import dagster_access
from resources.core.domain import SOURCE_LABELS, SourceName
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.settings import Settings
from resources.stores.postgres import connect
from sql import queries

ASKERS = ("helen", "ines")
"""The chief executive and an engineer: each may read what the other may not."""
TOP = 5
HANDFUL = 6
"""Of the questions about Drive and Slack, the first so many are asked."""


class DemoReport(msgspec.Struct):
    """What the demonstration found; the JSON line of `concordance demo --json`."""

    documents: int = 0
    chunks: int = 0
    sources: dict[str, int] = {}
    """Documents of each source."""
    left_out: list[dict[str, str]] = []
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
    """Show the platform at work and return the exit status. Stops what it started, whatever happens."""
    out = Console(stderr=json, highlight=False, soft_wrap=True)
    outcome = DemoReport()
    began = time.monotonic()
    settings = sample.with_sample_roots(settings)
    out.print("[bold]Concordance[/] with the sample company, Larkmoor Instruments.")
    with _services(settings, out, outcome) as running:
        _sync(running, out, outcome)
        _ask_all(running, out, outcome)
        outcome.seconds = round(time.monotonic() - began, 1)
        _summary(out, outcome)
    if json:
        Console(soft_wrap=True, highlight=False).print(msgspec.json.encode(outcome).decode(), markup=False)
    return 1 if outcome.faults else 0


@contextmanager
def _services(settings: Settings, out: Console, outcome: DemoReport) -> Generator[Settings]:
    """Use the set that runs on this home, or start one and stop it afterwards; yield its settings."""
    outcome.urls = {
        "Dagster": dagster_access.link(settings),
        "HTTP interface": f"{settings.base_url}/docs",
        "Metrics": f"{settings.base_url}/metrics",
    }
    began = time.monotonic()
    if supervisor.running(settings):
        if not sample.served_by_running(settings):
            raise ConfigurationError(
                f"Concordance runs on {settings.home} already, without the sample company. Stop it and run the "
                "demonstration again (concordance down; concordance demo), or run it beside: "
                "CONCORDANCE_HOME=.concordance-sample and other ports (CONCORDANCE_HTTP_PORT, _QDRANT_PORT, "
                "_POSTGRES_PORT, _DAGSTER_PORT)."
            )
        out.print("Using the services that run already (concordance up); they stay when this ends.")
        settings = with_running_simulators(settings)
        _name_simulators(settings, outcome)
        yield settings
        return
    _stop_on_termination()
    settings, beside = with_simulators(settings)
    _name_simulators(settings, outcome)
    names = "".join(f", a simulated {SOURCE_LABELS[source]}" for source in simulated(settings))
    with _busy(out, f"Starting Postgres, the vector engine, Dagster, the HTTP interface{names} ..."):
        started = supervisor.start(settings, beside)
    outcome.start_seconds = round(time.monotonic() - began, 1)
    out.print(f"All services answer after {outcome.start_seconds} s.")
    try:
        yield settings
    finally:
        out.print("Stopping what was started ...")
        started.stop()


def _stop_on_termination() -> None:
    """Let a termination signal unwind like Ctrl-C, so that what was started is stopped."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _name_simulators(settings: Settings, outcome: DemoReport) -> None:
    """Tell where the simulators answer, for whoever wants to change something in them."""
    for simulator in SIMULATORS:
        if simulator.source in simulated(settings):
            address = str(getattr(settings, simulator.url_setting)).removesuffix(simulator.path)
            outcome.urls[f"Simulated {SOURCE_LABELS[simulator.source]}"] = address


def _sync(settings: Settings, out: Console, outcome: DemoReport) -> None:
    """Run the Dagster jobs that bring the index up to the sources, and tell their stages on the way."""
    began = time.monotonic()
    sources = [SourceName.FILES, *simulated(settings)]
    with (
        Client(settings, "demo@concordance.example", admin=True) as client,
        _busy(out, f"Indexing {', '.join(SOURCE_LABELS[source] for source in sources)} through Dagster ...") as status,
    ):
        told: dict[SourceName, str] = {}

        def tell(source: SourceName, job: dict[str, Any]) -> None:
            stage = job["stage"] or "waiting for the run"
            if status is None and told.get(source) != stage:
                out.print(f"  {SOURCE_LABELS[source]}: {stage}")
            told[source] = stage
            if status is not None:
                stages = ", ".join(f"{SOURCE_LABELS[one]} ({stage})" for one, stage in told.items())
                status.update(f"Indexing: {stages} ...")

        jobs = client.sync(sources, tell)
    outcome.synced = sum(job["documents_synced"] for job in jobs)
    outcome.embedded = sum(job["chunks_embedded"] for job in jobs)
    outcome.sync_seconds = round(time.monotonic() - began, 1)
    for source, job in zip(sources, jobs, strict=True):
        if job["status"] != "success":
            raise ConcordanceError(
                f"The sync of {SOURCE_LABELS[source]} failed: {job['error_message'] or 'no reason given'}. "
                f"The run is shown at {dagster_access.link(settings, path='/runs')}"
            )
    _take_stock(settings, outcome)
    if outcome.documents == 0:
        raise ConcordanceError(
            f"The sync ended and nothing of the sample company is indexed. See {dagster_access.link(settings, path='/runs')}"
        )
    if outcome.synced == 0 and outcome.embedded == 0:
        out.print(f"Everything was done already: nothing changed, nothing embedded again ({outcome.sync_seconds} s).")
    else:
        out.print(
            f"Indexed {outcome.synced} documents, {outcome.embedded} passages embedded, in {outcome.sync_seconds} s."
        )


def _ask_all(settings: Settings, out: Console, outcome: DemoReport) -> None:
    """Ask every question as each person and check each answer against what that person may read."""
    people = sample.people()
    sources = simulated(settings)
    questions = sample.questions()
    questions += [question for question in sample.questions_of_sources()[:HANDFUL] if question.source in sources]
    for person in (people[name] for name in ASKERS):
        out.print(f"\n[bold]{person.name}[/], {person.role} ({', '.join(person.groups) or 'no groups'}) asks:")
        with Client(settings, person.email, person.groups) as client:
            for question in questions:
                judge(out, outcome, person, question, client.search(question.question, TOP)["results"])


def judge(
    out: Console, outcome: DemoReport, person: sample.Person, question: sample.Question, results: list[dict[str, Any]]
) -> None:
    """Print one answer and record in `outcome` what is wrong with it, if anything is."""
    outcome.questions += 1
    out.print(f"  [bold]{escape(question.question)}[/]")
    leaks = sorted({result["source_id"] for result in results if not person.reads(result["source_id"])})
    for leak in leaks:
        _fault(out, outcome, f"{person.name} was shown {leak}, which is not hers to read ({question.question!r}).")
    place = next((i for i, result in enumerate(results) if result["source_id"] == question.source_id), None)
    if person.id in question.may_not:
        if place is None:
            outcome.withheld += 1
            first = person.name.split()[0]
            why = f"is not for {first}" if question.may else "is shared by its link alone, so nobody finds it"
            out.print(f"     [yellow]withheld[/]: {escape(str(question.source_id))} answers this and {why}.")
    elif place is None:
        got = ", ".join(result["source_id"] for result in results) or "nothing"
        _fault(out, outcome, f"{question.source_id} is not in the top {TOP} of {question.question!r} (found: {got}).")
    else:
        outcome.found += 1
        result = results[place]
        out.print(f"     [green]{place + 1}.[/] {escape(result['citation']['text'])}{escape(_where(result))}")
        out.print(f"        {escape(' '.join(result['snippet'].split()))}", style="dim")
        out.print(f"        {escape(result['citation']['link'])}")


def _where(result: dict[str, Any]) -> str:
    parts = [f"page {result['page_start']}"] if result["page_start"] else []
    parts += result["section_path"][-1:]
    return f" · {', '.join(parts)}" if parts else ""


def _fault(out: Console, outcome: DemoReport, text: str) -> None:
    outcome.faults.append(text)
    out.print(f"     [red]WRONG[/]: {escape(text)}")


def _take_stock(settings: Settings, outcome: DemoReport) -> None:
    """Read from the registry what is indexed and what was left out, with reasons."""
    which = {
        "roots": [root.name for root in sample.roots()],
        "sources": [source.value for source in simulated(settings)],
    }
    registry = queries("demo")
    with connect(settings.postgres_dsn, autocommit=True) as connection:
        rows = list(registry.totals(connection, **which))
        outcome.documents = sum(row["documents"] for row in rows)
        outcome.chunks = sum(row["chunks"] for row in rows)
        outcome.sources = {row["source"]: row["documents"] for row in rows}
        outcome.left_out = [dict(row) for row in registry.left_out(connection, **which)]


def _summary(out: Console, outcome: DemoReport) -> None:
    out.print("\n[bold]Summary[/]")
    counts = ", ".join(f"{SOURCE_LABELS[SourceName(source)]} {count}" for source, count in outcome.sources.items())
    out.print(
        f"  {outcome.documents} documents ({counts}) in {outcome.chunks} passages; {outcome.embedded} embedded in this run."
    )
    for row in outcome.left_out:
        out.print(f"  left out: {row['source_id']} ({row['state']}): {escape(str(row['reason']))}")
    out.print(
        f"  {outcome.questions} answers: {outcome.found} found in the top {TOP}, {outcome.withheld} rightly withheld, "
        f"{len(outcome.faults)} wrong. {outcome.seconds} s in all."
    )
    for name, url in outcome.urls.items():
        out.print(f"  {name}: {url}")
    for fault in outcome.faults:
        out.print(f"  [red]WRONG[/]: {escape(fault)}")


def _busy(out: Console, text: str) -> Any:
    """Show a spinner on a terminal; elsewhere print the line once and hand over None."""
    if out.is_terminal:
        return out.status(text)
    out.print(text)
    return nullcontext(None)
