"""The supervisor over small services: order, restarts, clean ends, leftovers of a killed one."""

from __future__ import annotations

import dataclasses
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr

from orchestration import cli
from orchestration.supervision import heartbeat, run_state
from orchestration.supervision.changes import changed_settings, started_with
from orchestration.supervision.environment import child_environment
from orchestration.supervision.liveness import BUSY_MISSES, Pulse, answers
from orchestration.supervision.service import Service
from orchestration.supervision.supervisor import AlreadyRunningError, Supervisor
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.servers.processes import ProcessIdentity, alive, free_port, identify
from resources.settings import FileRoot, Settings
from tests.fixtures.mounts import Mount, fill
from tests.fixtures.waiting import until

TOY = """
import http.server, pathlib, signal, subprocess, sys
name, port, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
def note(what):
    with (folder / "events").open("a") as out:
        out.write(f"{what} {name}\\n")
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a killed supervisor's services get it once for each of its threads
    note("stop")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
helper = subprocess.Popen(["sleep", "600"])
(folder / f"{name}.helper").write_text(str(helper.pid))
note("start")
http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, home=tmp_path / "home")  # type: ignore[call-arg]


def toy(settings: Settings, name: str, port: int | None = None) -> Service:
    number = port or free_port()
    return Service(
        name=name,
        command=lambda: [sys.executable, "-c", TOY, name, str(number), str(settings.home)],
        ready=lambda: answers(f"http://127.0.0.1:{number}/"),
        url=f"http://127.0.0.1:{number}",
        environment=child_environment(settings),
        port=("CONCORDANCE_TOY_PORT", "127.0.0.1", number),
        cwd=str(settings.home),
    )


def events(settings: Settings) -> list[str]:
    return (settings.home / "events").read_text().splitlines()


def service_identity(settings: Settings, name: str) -> ProcessIdentity:
    identity = run_state.read(settings).services[name].identity
    assert identity is not None
    return identity


def restarted(settings: Settings, name: str, before: ProcessIdentity) -> None:
    """Wait until another process of a service is ready."""
    until(lambda: run_state.running(settings) and service_identity(settings, name) != before, "the restart")


@pytest.fixture
def started(settings: Settings) -> Iterator[Supervisor]:
    supervisor = Supervisor(settings, [[toy(settings, "one")], [toy(settings, "two"), toy(settings, "three")]])
    supervisor.start()
    yield supervisor
    supervisor.stop()


def test_starts_in_order_and_stops_in_reverse(settings: Settings, started: Supervisor) -> None:
    assert run_state.running(settings)
    state = run_state.read(settings)
    assert list(state.services) == ["one", "two", "three"]
    assert {service.state for service in state.services.values()} == {"ready"}
    processes = [service_identity(settings, name) for name in state.services]

    started.stop()

    assert [line for line in events(settings) if line.startswith("stop")] == ["stop three", "stop two", "stop one"]
    assert events(settings)[0] == "start one"
    assert not any(alive(process) for process in processes)
    assert not run_state.running(settings)


def test_a_service_that_ends_while_the_disk_is_full_is_started_again(settings: Settings, mount: Mount) -> None:
    mount(settings.home, megabytes=4)
    supervisor = Supervisor(settings, [[toy(settings, "one")]])
    supervisor.start()
    try:
        before = service_identity(settings, "one")
        fill(settings.home)
        os.kill(before.pid, signal.SIGKILL)
        until(lambda: not alive(before), "the end of the service")
        (child,) = supervisor._children
        until(lambda: child.identity not in (None, before), "another start")
        assert service_identity(settings, "one") == before
        (settings.home / "filler").unlink()
        until(lambda: service_identity(settings, "one") != before, "the state that is written once there is room")
        until(lambda: run_state.read(settings).services["one"].state == "ready", "the service that was started")
    finally:
        fill(settings.home)
        supervisor.stop()


def test_ends_what_the_services_started_themselves(settings: Settings, started: Supervisor) -> None:
    helpers = [identify(int((settings.home / f"{name}.helper").read_text())) for name in ("one", "two", "three")]
    assert None not in helpers
    started.stop()
    assert not any(alive(helper) for helper in helpers if helper)


def test_restarts_a_killed_service(settings: Settings, started: Supervisor) -> None:
    before = service_identity(settings, "two")
    os.kill(before.pid, signal.SIGKILL)
    restarted(settings, "two", before)
    assert events(settings).count("start two") == 2
    assert events(settings).count("start one") == 1


def test_back_off_doubles_to_its_limit(settings: Settings, started: Supervisor) -> None:
    child = started._children[0]
    assert [child.postpone() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    child.backoff.next_start = 0


def test_one_supervisor_a_home(settings: Settings, started: Supervisor) -> None:
    with pytest.raises(AlreadyRunningError, match="concordance down"):
        Supervisor(settings, []).start()
    assert run_state.running(settings), "the refused one must leave the first one's state alone"


def test_the_command_that_keeps_others_out_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_state, "KILLED_SECONDS", 0.0)
    run_state.write(settings, run_state.RunState())
    with run_state.lock(settings, command="backup"):
        for attempt in (Supervisor(settings, []).start, lambda: run_state.stop(settings)):
            with pytest.raises(AlreadyRunningError, match="`concordance backup` is running in"):
                attempt()
    with run_state.lock(settings), pytest.raises(AlreadyRunningError, match="Another `concordance up` is starting"):
        Supervisor(settings, []).start()


def test_a_service_that_dies_at_start_is_named_with_its_log(settings: Settings) -> None:
    broken = Service(
        name="broken",
        command=lambda: [sys.executable, "-c", "import sys; sys.exit('no such model')"],
        ready=lambda: False,
        environment=child_environment(settings),
    )
    with pytest.raises(ServiceUnavailableError, match=r"broken ended with status 1.*broken\.log(.|\n)*no such model"):
        Supervisor(settings, [[toy(settings, "one")], [broken]]).start()
    assert events(settings)[-1] == "stop one", "what had started is stopped"
    assert "broken ended with status 1" in (run_state.read(settings).error or "")


def test_a_service_that_ends_while_others_start_is_named(settings: Settings) -> None:
    def end_one() -> None:
        pid = service_identity(settings, "one").pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    other = dataclasses.replace(toy(settings, "two"), after=end_one)
    with pytest.raises(ServiceUnavailableError, match=r"one ended with status -9"):
        Supervisor(settings, [[toy(settings, "one")], [other]]).start()
    assert events(settings)[-1] == "stop two"
    assert "one ended with status -9" in (run_state.read(settings).error or "")


def test_what_follows_the_start_belongs_to_it(settings: Settings) -> None:
    ran: list[bool] = []

    def fail() -> None:
        ran.append(run_state.running(settings))
        raise ServiceUnavailableError("The database does not answer.")

    with pytest.raises(ServiceUnavailableError, match="The database"):
        Supervisor(settings, [[toy(settings, "one")]]).start(fail)
    assert ran == [False], "`up --detach` waits for it"
    assert events(settings)[-1] == "stop one"
    assert run_state.read(settings).error == "The database does not answer."


def test_a_service_that_never_answers_is_named(settings: Settings) -> None:
    mute = Service(
        name="mute",
        command=lambda: [sys.executable, "-c", "import time; time.sleep(600)"],
        ready=lambda: False,
        environment=child_environment(settings),
        start_seconds=0.2,
    )
    with pytest.raises(ServiceUnavailableError, match="mute was not ready"):
        Supervisor(settings, [[mute]]).start()


def test_a_service_that_says_that_it_is_not_ready_yet_is_waited_for(settings: Settings) -> None:
    """As Postgres does while it recovers from a crash; given up, it would begin again at the same place."""
    began = time.monotonic()
    recovering = Service(
        name="recovering",
        command=lambda: [sys.executable, "-c", "import time; time.sleep(600)"],
        ready=lambda: time.monotonic() - began > 2,
        probe=lambda: True,
        probe_seconds=0.05,
        environment=child_environment(settings),
        start_seconds=0.5,
        recovery_seconds=60.0,
    )
    supervisor = Supervisor(settings, [[recovering]])
    supervisor.start()
    supervisor.stop()


def test_changed_settings_are_named_until_the_services_have_them(settings: Settings) -> None:
    supervisor = Supervisor(settings, [[toy(settings, "one")]], started=started_with(settings, sample=False))
    supervisor.start()
    now = settings.model_copy(update={"http_port": 18080, "parse_seconds": 7.0, "secret_key": SecretStr("s" * 40)})
    try:
        assert changed_settings(settings) == []
        assert changed_settings(now) == [
            "CONCORDANCE_HTTP_PORT",
            "CONCORDANCE_LIMITS__PARSE_SECONDS",
            "CONCORDANCE_SECRET_KEY",
        ]
        assert "s" * 40 not in run_state.state_file(settings).read_text()
    finally:
        supervisor.stop()
    assert changed_settings(now) == []


def test_roots_that_the_sample_added_are_no_change(settings: Settings) -> None:
    mine, added = (
        FileRoot(name=name, url=f"file:///srv/{name}", tenant="acme", dataset=name, permissions=["public"])
        for name in ("mine", "sample")
    )
    own = settings.model_copy(update={"file_roots": [mine]})
    both = settings.model_copy(update={"file_roots": [mine, added]})
    started = started_with(both, sample=True, added=[added])
    supervisor = Supervisor(both, [[toy(settings, "one")]], started=started)
    supervisor.start()
    try:
        assert changed_settings(own) == changed_settings(both) == []
        assert changed_settings(settings) == ["CONCORDANCE_FILE_ROOTS"]
    finally:
        supervisor.stop()


def test_a_taken_port_names_the_setting(settings: Settings, started: Supervisor, tmp_path: Path) -> None:
    port = int(run_state.read(settings).services["one"].url.rpartition(":")[2])  # type: ignore[union-attr]
    other = Settings(_env_file=None, home=tmp_path / "other")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=f"Port {port}.*CONCORDANCE_TOY_PORT"):
        Supervisor(other, [[toy(other, "rival", port)]]).start()


SUPERVISE = """
import sys, threading
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from pathlib import Path
from test_supervisor import toy
from orchestration.supervision.supervisor import Supervisor
from resources.settings import Settings
settings = Settings(_env_file=None, home=Path(sys.argv[3]))
ports = [int(port) for port in sys.argv[4:]]
Supervisor(settings, [[toy(settings, "one", ports[0])], [toy(settings, "two", ports[1])]]).start()
threading.Event().wait()
"""


@pytest.fixture
def ports() -> list[int]:
    return [free_port(), free_port()]


@pytest.fixture
def other_supervisor(settings: Settings, ports: list[int]) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor in a process of its own."""
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(here.parents[1]), str(here), str(settings.home), *map(str, ports)]
    )
    until(lambda: run_state.running(settings), "the supervisor to be up")
    yield process
    process.kill()
    process.wait()
    run_state.stop(settings)


@pytest.fixture
def killed_supervisor(settings: Settings, other_supervisor: subprocess.Popen[bytes]) -> list[ProcessIdentity]:
    """The services of a supervisor that was killed. The first hangs, so it does not end when it is told to."""
    left = [service_identity(settings, name) for name in ("one", "two")]
    os.kill(left[0].pid, signal.SIGSTOP)
    other_supervisor.kill()
    other_supervisor.wait()
    return left


def test_services_end_cleanly_with_a_killed_supervisor(
    settings: Settings, other_supervisor: subprocess.Popen[bytes]
) -> None:
    first = service_identity(settings, "two")
    os.kill(first.pid, signal.SIGKILL)
    restarted(settings, "two", first)
    left = [service_identity(settings, name) for name in ("one", "two")]
    assert all(alive(identity) for identity in left)
    other_supervisor.kill()
    other_supervisor.wait()
    until(lambda: not any(alive(identity) for identity in left), "the end of the services, also of a restarted one")
    assert sorted(events(settings)[-2:]) == ["stop one", "stop two"]


def test_the_next_start_ends_what_a_killed_supervisor_left(
    settings: Settings, killed_supervisor: list[ProcessIdentity], ports: list[int]
) -> None:
    helper = identify(int((settings.home / "two.helper").read_text()))
    assert not run_state.running(settings)
    supervisor = Supervisor(settings, [[toy(settings, "one", ports[0])], [toy(settings, "two", ports[1])]])
    supervisor.start()
    try:
        assert not any(alive(identity) for identity in killed_supervisor)
        assert helper is None or not alive(helper), "what a service has started ends, too"
        assert run_state.running(settings)
    finally:
        supervisor.stop()


def test_a_hung_supervisor_is_shown_and_replaced_by_the_next_start(
    settings: Settings, other_supervisor: subprocess.Popen[bytes], ports: list[int]
) -> None:
    before = [service_identity(settings, name) for name in ("one", "two")]
    os.kill(other_supervisor.pid, signal.SIGSTOP)
    until(lambda: not run_state.running(settings), "`status` showing it")
    hung = run_state.hung_supervisor(settings)
    assert hung is not None
    assert hung.pid == other_supervisor.pid
    supervisor = Supervisor(settings, [[toy(settings, "one", ports[0])], [toy(settings, "two", ports[1])]])
    supervisor.start()
    try:
        assert other_supervisor.wait(30) == -signal.SIGKILL, "it must not wake up beside the new one"
        assert run_state.running(settings)
        assert not any(alive(identity) for identity in before)
    finally:
        supervisor.stop()


def test_a_supervisor_that_was_stopped_and_goes_on_restarts_nothing(
    settings: Settings, other_supervisor: subprocess.Popen[bytes]
) -> None:
    before = [service_identity(settings, name) for name in ("one", "two")]
    os.kill(other_supervisor.pid, signal.SIGSTOP)
    until(lambda: run_state.hung_supervisor(settings) is not None, "`status` showing it")
    os.kill(other_supervisor.pid, signal.SIGCONT)
    until(lambda: run_state.running(settings), "`status` showing that it works again")
    assert [service_identity(settings, name) for name in ("one", "two")] == before


def test_the_services_of_a_hung_supervisor_can_be_ended(
    settings: Settings, other_supervisor: subprocess.Popen[bytes]
) -> None:
    left = [service_identity(settings, name) for name in ("one", "two")]
    os.kill(other_supervisor.pid, signal.SIGSTOP)
    until(lambda: run_state.hung_supervisor(settings) is not None, "the stop")
    assert run_state.stop(settings)
    assert other_supervisor.wait(30) == -signal.SIGKILL
    assert not any(alive(identity) for identity in left)


def test_a_silent_supervisor_is_hung(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not be stopped by a signal: its threads may wait for each other."""
    silent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        identity = identify(silent.pid)
        run_state.write(settings, run_state.RunState(supervisor=identity, complete=True))
        heartbeat.beat(settings)
        assert run_state.running(settings)
        long_ago = time.monotonic_ns() - 60 * 10**9
        os.utime(heartbeat.file(settings), ns=(long_ago, long_ago))
        assert not run_state.running(settings)
        monkeypatch.setenv("CONCORDANCE_HOME", str(settings.home))
        assert cli.run(["status"]) == 1
        said = capsys.readouterr().err
        assert f"The supervisor (pid {silent.pid}) is hung" in said
        assert "concordance up" in said
    finally:
        silent.kill()
        silent.wait()


def test_end_finds_what_a_killed_supervisor_left(settings: Settings, killed_supervisor: list[ProcessIdentity]) -> None:
    until(lambda: not alive(killed_supervisor[1]), "the end of the service that does not hang")
    helper = identify(int((settings.home / "two.helper").read_text()))
    assert helper is not None, "a leader's child outlives it"
    assert run_state.stop(settings)
    assert not any(alive(identity) for identity in [*killed_supervisor, helper])
    assert not run_state.stop(settings), "a second time there is nothing to end"


def test_a_reused_number_is_never_killed(settings: Settings) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        identity = identify(stranger.pid)
        assert identity is not None
        run_state.write(
            settings,
            run_state.RunState(
                supervisor=ProcessIdentity(identity.pid, identity.started - 1),
                services={
                    "one": run_state.ServiceStatus(state="ready", pid=identity.pid, started=identity.started - 1),
                },
            ),
        )
        assert run_state.supervisor(settings) is None
        assert not run_state.stop(settings)
        assert alive(identity)
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("folder", [True, False], ids=["this version", "a state without its folder"])
def test_a_copy_of_a_home_ends_nothing_of_the_original(
    settings: Settings, started: Supervisor, tmp_path: Path, folder: bool
) -> None:
    copied = settings.model_copy(update={"home": tmp_path / "copy"})
    silent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        state = run_state.read(settings)
        run_state.write(settings, msgspec.structs.replace(state, supervisor=identify(silent.pid)))
        if not folder:
            state = msgspec.structs.replace(run_state.read(settings), folder=None)
            run_state.state_file(settings).write_bytes(msgspec.json.encode(state))
        shutil.copytree(settings.home, copied.home)
        long_ago = time.monotonic_ns() - 60 * 10**9
        os.utime(heartbeat.file(copied), ns=(long_ago, long_ago))
        assert run_state.end_hung(copied) is None
        assert run_state.supervisor(copied) is None
        assert run_state.end_leftovers(copied) == []
        assert not run_state.stop(copied)
        assert silent.poll() is None
        assert all(alive(service_identity(settings, name)) for name in state.services)
        assert run_state.supervisor(settings) == identify(silent.pid)
    finally:
        silent.kill()
        silent.wait()


HANGS = """
import http.server, signal, sys, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/hang":
            threading.Event().wait()
        if self.path == "/work":
            until = time.monotonic() + float(sys.argv[2])
            while time.monotonic() < until:
                pass
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()  # one request at a time
"""
PROBE_SECONDS = 0.1
WORK_SECONDS = 6 * PROBE_SECONDS * 2
"""Long enough for more missing replies than an idle service may have, too short for those of a busy one."""


def replies_soon(number: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.fixture
def fragile(settings: Settings) -> Iterator[tuple[int, Callable[[], ProcessIdentity]]]:
    """A service that answers one request at a time: its port, and who it is now."""
    number = free_port()
    service = Service(
        name="fragile",
        command=lambda: [sys.executable, "-c", HANGS, str(number), str(WORK_SECONDS)],
        ready=lambda: answers(f"http://127.0.0.1:{number}/"),
        probe=lambda: replies_soon(number),
        probe_seconds=PROBE_SECONDS,
        environment=child_environment(settings),
    )
    supervisor = Supervisor(settings, [[service], [toy(settings, "other")]])
    supervisor.start()
    yield number, lambda: service_identity(settings, "fragile")
    supervisor.stop()


def test_a_service_that_stops_answering_is_shown_as_hung_and_restarted(
    settings: Settings, fragile: tuple[int, Callable[[], ProcessIdentity]], caplog: pytest.LogCaptureFixture
) -> None:
    number, identity = fragile
    before, other = identity(), service_identity(settings, "other")
    connection = socket.create_connection(("127.0.0.1", number))
    connection.sendall(b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: run_state.read(settings).services["fragile"].state == "hung", "`status` showing it")
    restarted(settings, "fragile", before)
    assert service_identity(settings, "other") == other, "the others are left alone"
    assert "fragile is not responding: timed out" in caplog.text
    assert "fragile stopped responding (timed out) and was killed" in caplog.text


@pytest.mark.parametrize(("seconds_a_round", "hung"), [(1.0, True), (100.0, False)], ids=["running", "paused"])
def test_time_in_which_the_supervisor_did_not_run_does_not_count(seconds_a_round: float, hung: bool) -> None:
    """A probe that meets its deadline because the supervisor was stopped meanwhile says nothing about the service."""
    now, rounds = [0.0], threading.Semaphore(0)

    def probe() -> bool:
        now[0] += seconds_a_round
        rounds.release()
        return False

    service = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    leader = identify(service.pid)
    assert leader is not None
    pulse = Pulse(probe, leader, interval=0.001, clock=lambda: now[0])
    try:
        for _ in range(BUSY_MISSES + 2):
            assert rounds.acquire(timeout=60)
        assert (pulse.hung, pulse.suspect) == (hung, hung)
    finally:
        pulse.stop()
        service.kill()
        service.wait()


def test_a_stopped_service_is_restarted(settings: Settings, fragile: tuple[int, Callable[[], ProcessIdentity]]) -> None:
    _, identity = fragile
    before = identity()
    os.kill(before.pid, signal.SIGSTOP)
    restarted(settings, "fragile", before)
    assert not alive(before)


def test_a_busy_service_is_left_alone(settings: Settings, fragile: tuple[int, Callable[[], ProcessIdentity]]) -> None:
    number, identity = fragile
    before = identity()
    with socket.create_connection(("127.0.0.1", number)) as connection:
        connection.sendall(b"GET /work HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: run_state.read(settings).services["fragile"].state == "hung", "replies missing")
        assert connection.recv(100).startswith(b"HTTP/1.0 200"), "it was given the time to finish its work"
    until(lambda: run_state.running(settings), "`status` showing it as ready again")
    assert identity() == before
