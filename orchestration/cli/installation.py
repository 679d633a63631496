"""The commands `up`, `down`, `status`, `doctor` and `demo`, for the services of one machine."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from orchestration import systemd
from orchestration.cli.arguments import Json
from orchestration.cli.output import note, note_changed, program, say, say_json
from orchestration.demo import sample
from orchestration.demo.removal import ADDED_BY
from orchestration.demo.sample import with_sample_roots
from orchestration.demo.simulated import simulated, with_simulators
from orchestration.diagnosis import preflight
from orchestration.evaluation.question_set import put
from orchestration.supervision import ports, run_state
from orchestration.supervision.changes import changed_settings, started_with
from orchestration.supervision.environment import child_environment
from orchestration.supervision.rights import drop, write_as_owner
from orchestration.supervision.run_state import AlreadyRunningError, running, stop
from orchestration.supervision.services import check_fresh
from resources import dagster_access, sample_people
from resources.core.checks import Check
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError, NotRunningError, StorageFullError
from resources.keys import make_home
from resources.people import to_sync
from resources.servers.processes import tail
from resources.settings import Settings, load
from resources.stores import disk
from resources.stores.postgres import session
from sql.questions import Questions

DETACH_SECONDS = 300
"""Longest wait for a supervisor that shows no sign of life; one that does ends by itself if a service does not start."""
DIRECTORY_JOB = "sync_directory"
NOT_LINUX = (
    "Concordance is tested on Linux. Here the system does not confine the processes that parse files:"
    " index only files that you trust (docs/security.md)."
)


def up(
    *,
    detach: Annotated[
        bool, Parameter(negative="", help="Return once everything is ready; stop it with `down`.")
    ] = False,
    sample: Annotated[
        bool, Parameter(negative="", help="Add the sample company: its file roots, a simulated Drive and Slack.")
    ] = False,
) -> int:
    own = settings = load()
    full = [fault for fault in disk.faults(settings) if fault.state == disk.FULL]
    if full:
        raise StorageFullError(" ".join(map(str, full)))
    try:
        _drop_root(settings, ["up", *(["--detach"] if detach else []), *(["--sample"] if sample else [])])
        own = settings = _with_free_ports(settings)
        if sample:
            settings = with_sample_roots(settings)
        if run_state.supervisor(settings) is None:
            _check_values(settings)
        if detach:
            _detach(settings, sample)
        else:
            _keep_running(settings, sample)
    except AlreadyRunningError as error:
        note(str(error))
        note_changed(own)
        if not running(settings):
            return 1
        _say_addresses(settings)
    return 0


def restart(
    *,
    without_sample: Annotated[
        bool, Parameter(negative="", help="Stop serving the sample company; its indexed documents are kept.")
    ] = False,
) -> int:
    settings = load()
    if not settings.home.exists():
        raise NotRunningError(f"Concordance has never run in {settings.home}. {run_state.HOW_TO_START}")
    if (supervisor := run_state.supervisor(settings)) is None:
        return up(detach=True)
    if systemd.runs(supervisor.pid):
        raise ConcordanceError(
            f"Concordance runs as {systemd.NAME}, with that unit's environment. Run: systemctl restart {systemd.NAME}"
        )
    started, names = run_state.read(settings).started, changed_settings(settings)
    preflight.check(settings)  # while the services still run as they are
    note(f"Applying {', '.join(names)} …" if names else "No setting has changed; all services restart.")
    stop(settings)
    return up(detach=True, sample=started is not None and started.sample and not without_sample)


def _with_free_ports(settings: Settings) -> Settings:
    """Return the settings with free ports in place of taken ones that are not set, and record these for other commands."""
    found = ports.choose(settings)
    check_fresh(found)
    for line in ports.changes(settings, found):
        note(line)
    ports.record(found)
    return found


def _check_values(settings: Settings) -> None:
    """Name wrong values. Raises `ConfigurationError` if one of them stops the start."""
    for fault in preflight.check(settings):
        note(f"Note: {fault}")


def down() -> int:
    settings = load()
    if stop(settings):
        note(f"Stopped Concordance in {settings.home}.")
        return 0
    note(f"Concordance is not running in {settings.home}; nothing to stop.")
    return 3


def doctor(*, json: Json = False) -> int:
    from orchestration.diagnosis.doctor import examine

    findings = list(examine() if json else map(_said, examine()))
    faults = [finding for finding in findings if not finding.ok]
    if json:
        say_json({"ok": not faults, "checks": findings})
    else:
        note("No faults found." if not faults else f"{len(faults)} fault{'s' if len(faults) > 1 else ''} found.")
    return 1 if faults else 0


def _said(finding: Check) -> Check:
    say(f"{'ok   ' if finding.ok else 'FAULT'}  {finding.name}: {finding.detail}")
    if finding.remedy:
        say(f"       → {finding.remedy}")
    return finding


def demo(*, json: Json = False) -> int:
    from orchestration.demo.walkthrough import run

    settings = load()
    _drop_root(settings, ["demo", *(["--json"] if json else [])])
    return run(settings if run_state.supervisor(settings) else _with_free_ports(settings), json=json)


def _drop_root(settings: Settings, arguments: list[str]) -> None:
    if sys.platform != "linux":
        note(NOT_LINUX)

    if reason := drop(settings, arguments):
        note(reason)
    else:
        write_as_owner(settings.home)


def _open_sample(settings: Settings) -> None:
    _question_set(settings)
    _first_sync(settings)


def _first_sync(settings: Settings) -> None:
    """Index the sample company now instead of at the next scheduled sync."""
    from resources.syncs.launch import start_sync

    try:
        for source in (SourceName.FILES, *simulated(settings)):
            with suppress(BusyError):  # a scheduled sync has already started
                start_sync(settings, source, partitions=None, full=False, requested_by="up")
    except NotRunningError as error:
        note(f"The sample company is indexed by its schedule, because a first sync could not be started: {error}")
        return
    note("The sample company is being indexed; `concordance status` shows the progress.")


def read_people(settings: Settings) -> None:
    """Have people and groups read now instead of at the next scheduled sync: those of before a long pause are too old to count."""
    from resources.syncs.launch import launch

    if to_sync(settings):
        try:
            launch(settings, DIRECTORY_JOB, {})
        except NotRunningError as error:
            note(f"People and groups are read at the next scheduled sync. {error}")


def _question_set(settings: Settings) -> None:
    """Add the sample company's questions if the question set is empty."""
    with session(settings.postgres_dsn) as connection:
        if not Questions(connection).counted():
            put(connection, sample.question_set([SourceName.FILES, *simulated(settings)]), ADDED_BY)


def _keep_running(settings: Settings, with_sample: bool) -> None:

    from orchestration.supervision.supervisor import Supervisor

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("concordance").setLevel(logging.INFO)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    started = started_with(settings, sample=with_sample, added=sample.roots() if with_sample else ())
    os.environ.pop(sample_people.VARIABLE, None)
    if with_sample:
        os.environ[sample_people.VARIABLE] = str(sample.FOLDER / "people.json")
    settings, more = with_simulators(settings) if with_sample else (settings, [])
    supervisor = Supervisor(settings, more=more, started=started)
    try:
        supervisor.start(partial(_open_sample, settings) if with_sample else lambda: None)
        _say_addresses(settings)
        read_people(settings)
        if with_sample:
            _say_tries(settings)
        note("Stop it with Ctrl-C or `concordance down`.")
        threading.Event().wait()
    except AlreadyRunningError:
        raise
    except KeyboardInterrupt:
        note("Stopping …")
    finally:
        supervisor.stop()


def _interrupt(_number: int, _frame: object) -> None:
    # Services are now stopped in order, and a second Ctrl-C must not interrupt that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: object) -> None:
    """Ignore a signal. Unlike SIG_IGN, this is not inherited by processes that are started meanwhile."""


def _detach(settings: Settings, with_sample: bool) -> None:

    if run_state.supervisor(settings) is not None and run_state.hung_supervisor(settings) is None:
        raise run_state.AlreadyRunningError(run_state.already_running(settings))
    check_fresh(settings)
    make_home(settings)
    log = settings.home / "logs" / "supervisor.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestration.cli", "up", *(["--sample"] if with_sample else [])],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=child_environment(settings),
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_SECONDS
    shown: set[str] = set()
    while not (run_state.running(settings) and _started_by(settings, process.pid)):
        ours = _started_by(settings, process.pid)
        if process.poll() is not None:
            if not ours and run_state.supervisor(settings) is not None:
                raise run_state.AlreadyRunningError(run_state.already_running(settings))
            why = run_state.read(settings).error or tail(log)
            raise ConcordanceError(f"Concordance did not start. {why}")
        starts = ours and run_state.hung_supervisor(settings) is None  # Postgres may need long after a crash
        if time.monotonic() > deadline and not starts:
            process.terminate()
            raise ConcordanceError(f"Concordance did not start within {DETACH_SECONDS} s and was stopped; see {log}.")
        for name, service in run_state.read(settings).services.items():
            if ours and service.state == "ready" and name not in shown:
                shown.add(name)
                note(f"{name} is ready")
        time.sleep(0.1)
    _say_addresses(settings)
    if with_sample:
        _say_tries(settings)


def _say_tries(settings: Settings) -> None:
    """Print searches of the sample company to paste into another terminal."""
    people = sample.people()
    say(f"\nOpen {settings.base_url} in a browser and sign in as one of the sample company's people with a click.")
    say("Or search here, once `concordance status` shows no running sync:")
    for one in sample.TRIES:
        person = people[one.person]
        groups = [part for group in person.groups[:1] for part in ("--group", group)]
        say(f"  # {one.shows}")
        say(f"  {program()} {shlex.join(['search', one.question, '--as', person.email, *groups])}")


def _started_by(settings: Settings, pid: int) -> bool:

    state = run_state.read(settings)
    return state.supervisor is not None and state.supervisor.pid == pid


def _say_addresses(settings: Settings) -> None:

    say(f"Search page and HTTP interface  {settings.base_url}")
    shown = sys.stdout.isatty()  # a link signs in an administrator, so it is never written to a log
    say(f"Dagster                         {dagster_access.link(settings) if shown else settings.dagster_address}")
    say(f"Logs                            {settings.home / 'logs'}")
    if shown:
        note("The link to Dagster opens once, within 12 hours; `concordance status --urls` prints a new one.")
    else:
        note("`concordance status --urls` prints a link that opens Dagster.")
