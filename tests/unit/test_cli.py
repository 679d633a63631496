"""The command line without a running installation: help, arguments, exit statuses, and that nothing shows a stack trace."""

from __future__ import annotations

import errno
import getpass
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from orchestration.cli import run
from orchestration.cli.addresses import addresses
from orchestration.cli.app import app
from orchestration.cli.arguments import duration
from orchestration.cli.catalogue import EXAMPLES
from orchestration.cli.querying import shown
from orchestration.diagnosis import doctor, reach, store_checks
from orchestration.diagnosis.unknown_settings import unknown_settings
from orchestration.supervision import dagster_folder, heartbeat, run_state
from resources.servers.processes import free_port, identify
from resources.settings import Settings, load
from resources.settings.variables import GROUPS
from resources.sources.folders import LocalFolder
from resources.sources.tree import FilePage

CONFIGURATION = Path(__file__).parents[2] / "docs" / "configuration.md"
NO_SETTINGS = {"HOME", "FUSION", "DENSE_WEIGHT", "AGREEMENT"}
"""Words of help texts that are also names of settings: the folder HOME, and the parts of `eval --compare`."""
COMMANDS = [
    "up",
    "down",
    "status",
    "doctor",
    "demo",
    "token",
    "sign-in",
    "whoami",
    "sync",
    "search",
    "ask",
    "why",
    "key",
    "key create",
    "key list",
    "key revoke",
    "connect",
    "connect google",
    "connect list",
    "connect remove",
    "simulate",
    "simulate drive",
    "simulate slack",
    "reconcile",
    "reindex",
    "cleanup",
    "source",
    "source list",
    "source remove",
    "prune",
    "prune list",
    "prune approve",
    "prune reject",
    "audit",
    "audit run",
    "audit grants",
    "receipts",
    "erase",
    "backup",
    "restore",
    "eval",
    "questions",
    "questions add",
    "questions import",
    "questions list",
    "questions accept",
    "questions remove",
    "questions run",
]


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    for name in ("HTTP", "DAGSTER", "QDRANT", "POSTGRES"):
        monkeypatch.setenv(f"CONCORDANCE_{name}_PORT", str(free_port()))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("90s", timedelta(seconds=90)),
        (" 7D ", timedelta(days=7)),
    ],
)
def test_durations(text: str, value: timedelta) -> None:
    assert duration(text) == value


@pytest.mark.parametrize("text", ["", "12", "h", "-1h", "0h", "1.5h", "12 h", "1w", "99999999d", "999999999d", "٣h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|range"):
        duration(text)


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("", *COMMANDS):
        assert run([*command.split(), "--help"]) == 0, command
        out = capsys.readouterr().out
        assert f"Usage: concordance {command}".strip() in out, command
        assert len(out.splitlines()) > 4, command


def test_help_names_settings_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """A setting is named by its variable, which is documented; parts of groups and former settings have none."""
    documented = set(
        re.findall(r"^\| `(CONCORDANCE_\w+)`", Path(CONFIGURATION).read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert "CONCORDANCE_RETENTION" in documented
    bare = {name.upper() for name in (*Settings.model_fields, *GROUPS)} - NO_SETTINGS
    wrong: set[tuple[str, str]] = set()
    for command in ("", *COMMANDS):
        run([*command.split(), "--help"])
        out = " ".join(capsys.readouterr().out.replace("│", " ").split())
        named = set(re.findall(r"\bsettings? ([A-Z][A-Z_]+)", out))
        named |= {
            word for word in re.findall(r"\b[A-Z][A-Z_]{3,}\b", out) if word in bare or word.startswith("CONCORDANCE_")
        }
        wrong |= {(command, name) for name in named - documented}
    assert wrong == set()


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    out = capsys.readouterr().out
    assert [command for command in COMMANDS if " " not in command and f" {command} " not in out] == []


def test_the_overview_is_arranged_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    out = capsys.readouterr().out
    places = [out.index(f"╭─ {name} ─") for name in ("Run", "Search", "Sources", "Quality", "Access", "Upkeep")]
    assert places == sorted(places)


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_are_right_usage(example: str) -> None:
    app.parse_args(shlex.split(example)[1:], exit_on_error=False, print_error=False)


def test_a_search_without_a_person_says_who_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "parental leave"]) == 2
    printed = capsys.readouterr().err
    assert "Add --as EMAIL: the person whose permissions count" in printed
    assert "search 'parental leave' --as ann@example.com" in printed


@pytest.mark.parametrize(("more", "mark"), [({}, "(score 0.32)"), ({"weak": True}, "(score 0.32, weak)")])
def test_results_show_their_score_and_whether_they_are_weak(more: dict[str, bool], mark: str) -> None:
    citation = {"index": 1, "text": "Leave", "link": "https://x"}
    assert mark in shown({"citation": citation, "relevance_score": 0.32, "snippet": "26 weeks"} | more)


@pytest.mark.parametrize(
    ("command", "default"), [(["token"], "12h"), (["receipts"], "7d"), (["audit", "grants"], "7d")]
)
def test_help_shows_durations_as_they_are_written(
    command: list[str], default: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*command, "--help"])
    assert f"[default: {default}]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "holiday", "--as", "nobody"],
        ["search", "holiday", "--as", "ann@acme.com", "--top-k", "51"],
        ["why", "handbook/leave.md"],
        ["source", "remove"],
        ["source", "remove", "handbook", "--sample"],
        ["fetch"],
        ["token"],
        ["token", "ann@acme.com", "--expires", "12"],
        ["token", "not an address"],
        ["token", "ann@acme.com", "--group", "no group"],
        ["sync"],
        ["sync", "dropbox"],
        ["search", "holiday"],
        ["search", "holiday", "--as", "ann@acme.com", "--mode", "psychic"],
        ["search", "holiday", "--as", "ann@acme.com", "--top-k", "many"],
        ["status", "--jsn"],
        ["key", "create"],
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip()
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sync", "files"],
        ["sync", "google-drive", "--wait", "--json"],
        ["search", "holiday", "--as", "ann@acme.com", "--group", "eng@acme.com"],
        ["key", "create", "ann@acme.com"],
        ["key", "list", "--json"],
        ["key", "revoke", "abc"],
        ["status"],
        ["down"],
    ],
)
def test_not_running_is_status_3_and_says_how_to_start(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 3
    captured = capsys.readouterr()
    assert "not run" in captured.err or "never run" in captured.err or "concordance up" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("arguments", [["sync", "files"], ["key", "list"], ["reindex"]])
def test_your_own_postgres_that_does_not_answer_is_named_by_its_setting(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", f"postgresql://me:secret@127.0.0.1:{free_port()}/none")
    assert run(arguments) == 3
    said = capsys.readouterr().err
    assert re.search(r"[.?] The address is that of CONCORDANCE_POSTGRES_URL", said), said
    assert "concordance up" not in said
    assert "secret" not in said


def test_status_waits_for_a_database_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that hangs takes ten seconds for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made: list[socket.socket] = []

        def refuse() -> None:
            with suppress(OSError):
                while True:
                    made.append(server.accept()[0])
                    made[-1].close()

        thread = threading.Thread(target=refuse)
        thread.start()
        where = f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/none?sslmode=disable&gssencmode=disable"
        monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", where)
        assert run(["status"]) == 3
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert "The database is not responding" in capsys.readouterr().err
    assert len(made) == 1


def test_status_prints_json_last_even_when_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {
        "services": {},
        "fault": "The database is not responding, so the state of the sources is unknown.",
        "sources": {},
        "running": [],
        "alerts": [],
        "notices_waiting": 0,
        "forecasts": [],
        "disks": [],
        "left_out": [],
        "groups": [],
    }


def test_status_is_a_failure_if_the_database_is_down(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_state.write(load(), run_state.RunState(supervisor=identify(os.getpid()), complete=True))
    heartbeat.beat(load())
    assert run(["status", "--json"]) == 1
    assert "database is not responding" in json.loads(capsys.readouterr().out.splitlines()[-1])["fault"]


def test_token_prints_the_token_alone(capsys: pytest.CaptureFixture[str]) -> None:
    import jwt

    assert (
        run(
            [
                "token",
                "Ann@Acme.com",
                "--group",
                "eng@acme.com",
                "--group",
                "all@acme.com",
                "--admin",
                "--expires",
                "30m",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    claims = jwt.decode(out.strip(), options={"verify_signature": False})
    assert claims["sub"] == "ann@acme.com"
    assert claims["groups"] == ["eng@acme.com", "all@acme.com"]
    assert claims["exp"] - claims["iat"] == 1800


def test_a_wrong_setting_is_named_in_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", "0")
    assert run(["status"]) == 1
    assert "CONCORDANCE_HTTP_PORT" in capsys.readouterr().err


def test_what_was_not_foreseen_goes_to_a_log(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = installation / "run" / "state.json"
    state.mkdir(parents=True)
    assert run(["status"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert str(installation / "logs" / "cli.log") in err
    assert "Traceback" in (installation / "logs" / "cli.log").read_text()


class StartingChild:
    """Stands for the `up` of `up --detach`: it is not ready before it has been looked at three times."""

    pid = os.getpid()

    def __init__(self, *_args: object, **_options: object) -> None:
        self.looks, self.ended = 0, False
        self._write(complete=False)
        heartbeat.beat(load())

    def _write(self, *, complete: bool) -> None:
        run_state.write(load(), run_state.RunState(supervisor=identify(self.pid), complete=complete))

    def poll(self) -> None:
        self.looks += 1
        if self.looks == 3:
            self._write(complete=True)

    def terminate(self) -> None:
        self.ended = True


def test_up_waits_for_services_for_as_long_as_the_supervisor_lives(
    installation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a crash, Postgres may need half an hour: who stops it makes it begin again."""
    monkeypatch.setattr("orchestration.cli.installation.DETACH_SECONDS", -1)
    monkeypatch.setattr("orchestration.cli.installation.drop", lambda *_: None)  # root would go on as another account
    monkeypatch.setattr("orchestration.cli.installation.write_as_owner", lambda *_: None)
    monkeypatch.setattr("orchestration.cli.installation.subprocess", SimpleNamespace(Popen=StartingChild, DEVNULL=None))
    assert run(["up", "--detach"]) == 0
    assert "Search page and HTTP interface" in capsys.readouterr().out


def test_a_supervisor_that_hangs_is_not_waited_for(
    installation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hanging(StartingChild):
        def poll(self) -> None:
            os.utime(heartbeat.file(load()), (0, 0))

    monkeypatch.setattr("orchestration.cli.installation.DETACH_SECONDS", -1)
    monkeypatch.setattr("orchestration.cli.installation.drop", lambda *_: None)  # root would go on as another account
    monkeypatch.setattr("orchestration.cli.installation.write_as_owner", lambda *_: None)
    monkeypatch.setattr("orchestration.cli.installation.subprocess", SimpleNamespace(Popen=Hanging, DEVNULL=None))
    assert run(["up", "--detach"]) == 1
    assert "and was stopped" in capsys.readouterr().err


OF_ANOTHER = """
import difflib, os, sys
from orchestration.diagnosis import doctor  # all before the rights go: the project may be closed to others
from orchestration.cli import access, app, installation, run, status
from resources.stores import damage
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["status", "down", "doctor", "key list"])
def test_the_home_of_another_account_is_named(command: str) -> None:
    with tempfile.TemporaryDirectory() as base:  # pytest's own folders are closed to other users
        Path(base).chmod(0o755)
        (home := Path(base) / "home").mkdir()
        (home / "keys.json").write_text("{}")
        home.chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", OF_ANOTHER, *command.split()],
            env={**os.environ, "CONCORDANCE_HOME": str(home), "PYTHONPATH": str(CONFIGURATION.parents[1])},
            cwd=base,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [f"{home} belongs to {getpass.getuser()}: run the command as that account."],
    )


def test_a_file_that_may_not_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    from orchestration import cli

    assert cli.explain(PermissionError(errno.EPERM, "Operation not permitted", "/etc/x")) == 1
    assert capsys.readouterr().err == "Cannot write /etc/x: Operation not permitted.\n"


def test_doctor_finds_a_taken_port_and_a_missing_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    roots = [{"name": "gone", "url": (tmp_path / "gone").as_uri(), "tenant": "acme", "dataset": "x"}]
    monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", json.dumps(roots))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(port))
        assert run(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    faults = {check["name"]: check for check in report["checks"] if not check["ok"]}
    assert not report["ok"]
    assert f"CONCORDANCE_HTTP_PORT {port} is taken" in faults["ports"]["detail"]
    assert "gone" in faults["file roots"]["detail"]
    assert all(check["remedy"] for check in (faults["ports"], faults["file roots"]))


def test_doctor_names_a_folder_of_a_root_that_cannot_be_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = [{"name": "docs", "url": tmp_path.as_uri(), "tenant": "acme", "dataset": "x", "permissions": []}]
    monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", json.dumps(roots))
    (tmp_path / "closed").mkdir()
    opened = os.open

    def refuse(path: Any, *given: Any, **named: Any) -> int:
        if path == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given, **named)

    monkeypatch.setattr("resources.sources.folders.os.open", refuse)
    run(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    (found,) = (check for check in report["checks"] if check["name"] == "file roots")
    assert not found["ok"]
    assert "docs: closed: Permission denied" in found["detail"]
    assert "CONCORDANCE_ACL_MAX_AGE" in found["detail"]
    assert found["remedy"]


def test_doctor_looks_through_all_roots_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a", "b", "c")
    for name in names:
        (tmp_path / name).mkdir()
    roots = [
        {"name": name, "url": (tmp_path / name).as_uri(), "tenant": "acme", "dataset": "x", "permissions": []}
        for name in names
    ]
    monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", json.dumps(roots))
    all_there, walk = threading.Barrier(len(roots)), LocalFolder.walk

    def wait_for_the_others(self: LocalFolder) -> Iterator[FilePage]:
        all_there.wait(10)
        return walk(self)

    monkeypatch.setattr(LocalFolder, "walk", wait_for_the_others)
    run(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = [check for check in report["checks"] if check["name"] == "file roots"]
    assert [(check["detail"][0], check["ok"]) for check in found] == [(name, True) for name in names]


def test_doctor_names_a_vector_server_that_hangs(monkeypatch: pytest.MonkeyPatch, installation: Path) -> None:
    monkeypatch.setattr(store_checks, "QDRANT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("CONCORDANCE_QDRANT_PORT", str(silent.getsockname()[1]))
        (fault,) = store_checks.qdrant(load(), running=True)
    assert not fault.ok
    assert "Qdrant does not answer (list the collections): timed out" in fault.detail
    assert str(installation / "logs" / "qdrant.log") in fault.remedy


@pytest.mark.usefixtures("installation")
def test_doctor_waits_for_a_silent_postgres_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/db")
        faults = [one for one in doctor.examine() if not one.ok]
    assert [one.name for one in faults if "database" in one.detail or "Postgres" in one.detail] == ["postgres"]


@pytest.mark.parametrize(
    ("limit", "right"),
    [("    default_limit: 4", False), ("    default_limit: 16", True), ("    granularity: run", True)],
)
def test_doctor_compares_the_limit_of_pools_in_an_instance_file_of_ones_own(
    limit: str, right: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "dagster.yaml").write_text(f"concurrency:\n  pools:\n{limit}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("CONCORDANCE_LIMITS__SYNC_RUNS", "16")
    found = list(doctor.pools(doctor.Installation(load(), running=False)))
    assert [one.ok for one in found] == ([] if right else [False])
    assert all("CONCORDANCE_LIMITS__SYNC_RUNS is 16" in one.detail and str(tmp_path) in one.remedy for one in found)
    (tmp_path / "dagster.yaml").write_text(f"{dagster_folder.OURS}\n{limit}\n")
    assert not list(doctor.pools(doctor.Installation(load(), running=False))), "written at each start"


def test_doctor_names_wrong_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", "99999")
    assert run(["doctor"]) == 1
    assert "CONCORDANCE_HTTP_PORT" in capsys.readouterr().out


def test_addresses_for_tools_carry_their_secrets_and_none_go_to_services_of_others(tmp_path: Path) -> None:
    own = addresses(Settings(_env_file=None, home=tmp_path / "home"))  # type: ignore[call-arg]
    assert own["qdrant"].headers["api-key"]
    assert own["dagster"].headers["Authorization"].startswith("Bearer ")
    assert own["dagster"].headers != own["dagster"].read_only_headers
    assert own["dagster"].link is not None
    assert own["dagster"].link.startswith(f"{own['dagster'].url}/?token=")
    foreign = addresses(
        Settings(_env_file=None, home=tmp_path / "home", qdrant_url="http://q:6333", dagster_url="http://d:3000")  # type: ignore[call-arg]
    )
    assert (foreign["qdrant"].headers, foreign["dagster"].headers) == ({}, {})
    assert (foreign["dagster"].link, foreign["dagster"].read_only_link) == (None, None)
    elsewhere = addresses(
        Settings(_env_file=None, home=tmp_path / "home", dagster_url="http://d:3000", dagster_secret="s" * 32)  # type: ignore[call-arg, arg-type]
    )["dagster"]
    assert elsewhere.link is not None
    assert elsewhere.link.startswith("http://d:3000/?token=")
    assert elsewhere.read_only_headers != elsewhere.headers
    published = addresses(
        Settings(_env_file=None, home=tmp_path / "home", dagster_public_url="https://dagster.acme.com")  # type: ignore[call-arg]
    )["dagster"]
    assert published.url.startswith("http://127.0.0.1:"), "for programs on this machine"
    for link in (published.link, published.read_only_link):
        assert link is not None
        assert link.startswith("https://dagster.acme.com/?token=")


def test_a_misspelt_setting_is_named_with_the_one_that_is_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("CONCORDANCE_HTTP_PROT=8081\n")
    for name in ("FILE_ROOT", "FILE_ROOTS", "LIMITS", "SERVICE_HOST", "PORT_8080_TCP_ADDR", "WITHHELD", "DRIVE_USER"):
        monkeypatch.setenv(f"CONCORDANCE_{name}", "x")
    monkeypatch.setenv("CONCORDANCE_XYZZY", "x")
    assert unknown_settings() == [
        "CONCORDANCE_DRIVE_USER is not a setting and is ignored: did you mean CONCORDANCE_DRIVE__USERS?",
        "CONCORDANCE_FILE_ROOT is not a setting and is ignored: did you mean CONCORDANCE_FILE_ROOTS?",
        "CONCORDANCE_HTTP_PROT is not a setting and is ignored: did you mean CONCORDANCE_HTTP_PORT?",
        "CONCORDANCE_XYZZY is not a setting and is ignored: docs/configuration.md lists the settings.",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_without_a_stack_trace(number: signal.Signals, tmp_path: Path) -> None:
    """While its modules are imported, and while it works: here, waits for a Postgres that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://app@127.0.0.1:{silent.getsockname()[1]}/app"
        environment = {**os.environ, "CONCORDANCE_HOME": str(tmp_path / "home"), "CONCORDANCE_POSTGRES_URL": address}

        def ended(*options: str, waiting: Callable[[IO[str]], object]) -> tuple[int, str]:
            command = [sys.executable, *options, "-m", "orchestration.cli", "migrate", "--wait", "300"]
            with subprocess.Popen(
                command,
                env=environment | {"PYTHONPATH": str(CONFIGURATION.parents[1])},
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # no thread holds a lock
            ) as process:
                assert process.stderr is not None
                waiting(process.stderr)
                process.send_signal(number)
                said = process.stderr.read()
                return process.wait(), said

        status, said = ended("-X", "importtime", waiting=lambda lines: next(one for one in lines if "attrs" in one))
        own = [line for line in said.splitlines() if not line.startswith("import time:")]
        assert (status, own) == (128 + number, ["Interrupted: run the command again."])
        status, said = ended(waiting=lambda _: silent.accept())
        assert (status, said) == (128 + number, "Interrupted: run the command again.\n")


def test_another_ctrl_c_ends_a_command_that_waits_for_an_object_store_that_hangs(tmp_path: Path) -> None:
    """It looks at no signal within the store's library, which tries again for three minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
        own = {"CONCORDANCE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(CONFIGURATION.parents[1])}
        with subprocess.Popen(
            [sys.executable, "-m", "orchestration.cli", "restore", "s3://bucket/prefix"],
            env=os.environ | store | own,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # no thread holds a lock
        ) as process:
            try:
                silent.accept()
                process.send_signal(signal.SIGINT)
                with pytest.raises(subprocess.TimeoutExpired):  # it has not noticed
                    process.wait(2)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 128 + signal.SIGINT
            finally:
                process.kill()


def test_what_commands_log_is_masked_and_on_standard_error() -> None:
    """Standard output is for results, which programs read."""
    script = """
import structlog
from orchestration import cli
def run(arguments):
    structlog.get_logger("sync").warning("sync_delayed", requested_by="ann@acme.com")
    structlog.get_logger("sync").info("sync_began")
    print("{}")
    return 0
cli.run = run
cli.main()
"""
    ended = subprocess.run([sys.executable, "-c", script, "status"], capture_output=True, text=True, check=True)
    assert ended.stdout == "{}\n"
    assert "sync_delayed" in ended.stderr
    assert "[email]" in ended.stderr
    assert "ann@" not in ended.stderr
    assert "sync_began" not in ended.stderr
