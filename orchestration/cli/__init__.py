"""The `concordance` command.

Exit status: 0 done, 1 failed or found faults, 2 wrong usage, 3 not running. The module of a command is imported only when it is
needed, and heavy libraries are imported within functions. Expected errors are one line on standard error, without a stack trace.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from cyclopts import App, CycloptsError

from orchestration.cli.catalogue import APPS, COMMANDS, arranged, epilogue

DONE, FAILED, USAGE, NOT_RUNNING = 0, 1, 2, 3
INTERRUPTED = 130
"""The exit status that shells expect of a command that was ended by Ctrl-C."""

app = App(
    name="concordance",
    help="Search for your company's knowledge: keeps a search index in sync with your sources, and shows each person only "
    "documents that they may read.",
    help_epilogue=epilogue(""),
    version_flags=["--version"],
    version=lambda: installed_version(),
    # The default, Markdown, takes a quarter of a second to import.
    help_format="plaintext",
    result_action="return_value",
)
key = App(name="key", help="Manage API keys for programs.", result_action="return_value")
model = App(name="model", help="Get embedding models and rerankers, and try them.", result_action="return_value")
sessions = App(name="session", help="List and end sessions of browsers.", result_action="return_value")
connections = App(name="connect", help="Connect accounts that sources are read with.", result_action="return_value")
simulators = App(
    name="simulate",
    help="Simulate Google Drive or Slack on this machine, to try the connectors without an account.",
    result_action="return_value",
)
prune = App(
    name="prune", help="Approve or reject mass deletions, which are held for a decision.", result_action="return_value"
)
source_roots = App(
    name="source",
    help="List roots, drives and channels, and remove those that are no longer wanted.",
    result_action="return_value",
)
question_set = App(
    name="questions",
    help="Manage the questions that measure search quality each month and before a change of model.",
    result_action="return_value",
)
units = App(name="service", help="Run Concordance as a service of this machine.", result_action="return_value")
rebuild = App(name="rebuild", help="Rebuild what was lost from what is left.", result_action="return_value")
audit = App(name="audit", help="Check permissions, and list grants and revocations.", result_action="return_value")

GROUPS = {"": app} | {
    one.name[0]: one
    for one in (key, sessions, connections, simulators, source_roots, prune, question_set, model, audit, rebuild, units)
}

for name, group in list(GROUPS.items())[1:]:
    group.group, group.help_epilogue = arranged(name), epilogue(name)
    app.command(group)
for module, commands in COMMANDS.items():
    for command, summary in commands.items():
        parent, _, name = command.rpartition(" ")
        path = f"orchestration.cli.{module}:{command.replace(' ', '_').replace('-', '_')}"
        own = {} if command in APPS else {"help_epilogue": epilogue(command)}
        GROUPS[parent].command(path, name=name, help=summary, group=None if parent else arranged(name), **own)


def main() -> None:
    """Run the command line and exit with its status."""
    if any(name.lower().endswith("_proxy") for name in os.environ):
        from resources.proxies import exempt_this_machine

        exempt_this_machine()
    if (
        os.geteuid() == 0
        and sys.argv[1:]
        and not sys.argv[1].startswith("-")
        and sys.argv[1] not in ("up", "restart", "demo")
    ):
        _write_as_owner()
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        _name_unknown_settings()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    try:
        result = app(list(arguments), exit_on_error=False, print_error=True)
    except CycloptsError:
        return USAGE  # cyclopts has printed the reason
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # the reader of our output has gone: exit without another message
        return FAILED
    except Exception as error:  # noqa: BLE001 # the edge of the process; explain() reports every error
        return explain(error)
    return result if isinstance(result, int) else DONE


def _name_unknown_settings() -> None:
    from orchestration.unknown_settings import unknown_settings

    for line in unknown_settings():
        sys.stderr.write(f"Note: {line}\n")


def _write_as_owner() -> None:
    from orchestration.supervision.rights import write_as_owner
    from resources.core.errors import ConfigurationError
    from resources.settings import load

    with suppress(ConfigurationError):  # the command itself reports faults of the settings
        write_as_owner(load().home)


def explain(error: Exception) -> int:
    """Print why a command failed and return its exit status; unexpected errors are logged with their stack trace."""
    from resources.core.errors import ConcordanceError, InvalidRequestError, NotRunningError

    found = _disk_fault(error)
    if found is not None:
        sys.stderr.write(f"{found}\n")
        return NOT_RUNNING if isinstance(error, NotRunningError) else FAILED
    if not isinstance(error, ConcordanceError):
        sys.stderr.write(f"Unexpected error: {type(error).__name__}: {error}\n{_log_trace()}\n")
        return FAILED
    sys.stderr.write(f"{error}\n")
    if isinstance(error, NotRunningError):
        return NOT_RUNNING
    return USAGE if isinstance(error, InvalidRequestError) else FAILED


def _disk_fault(error: Exception) -> str | None:
    """Return the reason for an error caused by a full or read-only disk, of HOME or elsewhere; None for any other error."""
    import errno

    from resources.core.errors import ConfigurationError
    from resources.settings import load
    from resources.stores.damage import of_a_disk

    try:
        found = of_a_disk(error, load())
    except ConfigurationError:
        return None
    if found is not None:
        return str(found)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}:
        return f"Cannot write {error.filename or 'a file'}: {error.strerror}."
    return None


def _log_trace() -> str:
    import traceback

    from resources.core.errors import ConfigurationError
    from resources.settings import load

    try:
        log = load().home / "logs" / "cli.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"{' '.join(sys.argv)}\n{traceback.format_exc()}\n")
    except (OSError, ConfigurationError) as error:
        return f"The details could not be logged ({error})."
    return f"The details are in {log}. Please report them."


def installed_version() -> str:
    """Return the version of this installation."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("concordance")
    except PackageNotFoundError:
        return "0 (not installed)"
