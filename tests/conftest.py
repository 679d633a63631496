"""Fixtures for every test: real services as processes, and fakes of what can't be reached."""

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import certifi
import hypothesis
import pytest
import structlog

from resources.servers import processes
from tests.fixtures.memory import use_memory

gc.disable()  # until `pytest_collection` ends

pytest_plugins = [
    "tests.fixtures.pgbouncer",
    "tests.fixtures.postgres",
    "tests.fixtures.vector",
    "tests.fixtures.installation",
    "tests.fixtures.dagster",
    "tests.fixtures.dagster_runs",
    "tests.fixtures.foreign_sources",
    "tests.fixtures.serving",
    "tests.fixtures.oidc_provider",
    "tests.fixtures.axe",
    "tests.fixtures.company",
    "tests.fixtures.desk",
    "tests.fixtures.mounts",
    "tests.fixtures.drive",
    "tests.fixtures.llm",
    "tests.fixtures.slack",
    "tests.fixtures.slack_desk",
    "tests.fixtures.assistant",
    "tests.fixtures.step",
    "tests.fixtures.paired_sites",
    "tests.fixtures.parsers",
    "tests.fixtures.durations",
    "tests.fixtures.smtp",
    "tests.fixtures.webhook",
    "tests.fixtures.skipped",
    "tests.fixtures.s3",
]


# No test depends on how fast this machine is, and two runs of the same code try the same examples.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("new", deadline=None, derandomize=False)
hypothesis.settings.load_profile("same")
use_memory()  # before pytest creates its first temporary folder
worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:], os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
processes.PORTS = processes.PORTS[int(worker) :: int(workers)]  # another one could take a port before it is used

# By default, structlog draws each traceback with all variables of all its functions, which takes half a second.
structlog.configure(
    [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session", autouse=True)
def machine_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return this machine's environment, for tests that leave it; all others trust one authority instead of all.

    Each of a thousand clients takes 40 ms to read the list.
    """
    before = dict(os.environ)
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    file.write_text(f"{first}{end}\n")
    os.environ["SSL_CERT_FILE"] = str(file)
    return before


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and thousands of collected tests from garbage collection, which begins afterwards: they stay to the end."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # every 700 objects, as by default, takes a twentieth of the time of a test
        gc.enable()


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name tests of long values after the argument: a token or an archive holds the time, and workers must agree on the names."""
    return argname if isinstance(val, str | bytes) and len(val) > 120 else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the tables that tests passed to the fixture `show`, in any process."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "shown" and report.when == "call":
                terminalreporter.write_sep("-", report.nodeid)
                terminalreporter.write_line(text)
