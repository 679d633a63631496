"""Fixtures for every test: real parts as processes, and doubles of what can't be reached."""

from typing import Any

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.vector",
    "tests.fixtures.installation",
    "tests.fixtures.serving",
    "tests.fixtures.company",
    "tests.fixtures.desk",
    "tests.fixtures.drive",
    "tests.fixtures.llm",
    "tests.fixtures.slack",
    "tests.fixtures.step",
]


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name tests of long values after the argument: a token or an archive holds the time, and workers must agree on the names."""
    return argname if isinstance(val, str | bytes) and len(val) > 120 else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the tables that tests kept for people (fixture `show`), also those of other processes."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "shown" and report.when == "call":
                terminalreporter.write_sep("-", report.nodeid)
                terminalreporter.write_line(text)
