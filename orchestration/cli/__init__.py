"""The `concordance` command.

Exit status: 0 done, 1 failed or found faults, 2 wrong usage, 3 not running. Commands import what they need when they run, so that
`--help` is fast. Expected errors are printed as one line on standard error, without a stack trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from cyclopts import App, CycloptsError

from orchestration.cli import (
    access,
    backing_up,
    connect,
    erasing,
    evaluating,
    installation,
    querying,
    questions,
    reindexing,
    simulate,
    syncing,
    upkeep,
    why,
)

DONE, FAILED, USAGE, NOT_RUNNING = 0, 1, 2, 3
INTERRUPTED = 130
"""The exit status that shells expect of a command that was ended by Ctrl-C."""

app = App(
    name="concordance",
    help="Search for your company's knowledge: keeps a search index in sync with your sources, and shows each person only "
    "documents that they may read.",
    help_epilogue="Exit status: 0 done, 1 failed or found faults, 2 wrong usage, 3 not running. Settings: docs/configuration.md.",
    version_flags=["--version"],
    version=lambda: installed_version(),
    # The default, Markdown, takes a quarter of a second to import.
    help_format="plaintext",
    result_action="return_value",
)
key = App(name="key", help="Manage API keys for programs.", result_action="return_value")
connections = App(name="connect", help="Connect accounts that sources are read with.", result_action="return_value")
simulators = App(
    name="simulate",
    help="Simulate Google Drive or Slack on this machine, to try the connectors without an account.",
    result_action="return_value",
)
prune = App(
    name="prune", help="Approve or reject mass deletions, which are held for a decision.", result_action="return_value"
)
question_set = App(
    name="questions",
    help="Manage the questions that measure search quality each month and before a change of model.",
    result_action="return_value",
)
audit = App(name="audit", help="Check permissions, and list grants and revocations.", result_action="return_value")

app.command(installation.up)
app.command(installation.down)
app.command(installation.status)
app.command(installation.doctor)
app.command(installation.demo)
app.command(simulators)
simulators.command(simulate.drive)
simulators.command(simulate.slack)
app.command(syncing.sync)
app.command(upkeep.reconcile)
app.command(reindexing.reindex)
app.command(reindexing.cleanup)
app.command(prune)
prune.command(upkeep.prune_list, name="list")
prune.command(upkeep.prune_approve, name="approve")
prune.command(upkeep.prune_reject, name="reject")
app.command(audit)
audit.command(upkeep.audit_run, name="run")
audit.command(upkeep.audit_grants, name="grants")
app.command(backing_up.backup)
app.command(backing_up.restore)
app.command(erasing.erase)
app.command(erasing.receipts)
app.command(querying.search)
app.command(why.why)
app.command(evaluating.evaluate, name="eval")
app.command(question_set)
question_set.command(questions.add)
question_set.command(questions.add_all, name="import")
question_set.command(questions.list_all, name="list")
question_set.command(questions.accept)
question_set.command(questions.remove)
question_set.command(questions.run)
app.command(access.token)
app.command(key)
key.command(access.create_key, name="create")
key.command(access.list_keys, name="list")
key.command(access.revoke_key, name="revoke")
app.command(connections)
connections.command(connect.google, name="google")


def main() -> None:
    """Run the command line and exit with its status."""
    if os.geteuid() == 0 and sys.argv[1:] and not sys.argv[1].startswith("-") and sys.argv[1] not in ("up", "demo"):
        _write_as_owner()
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
