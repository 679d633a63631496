"""The `concordance` command.

Exit status: 0 done, 1 failed or found faults, 2 wrong usage, 3 not running, 130 and more ended by a signal. The module of a command is
imported only when it is needed, and heavy libraries are imported within functions, so that a signal meets this module first. Expected
errors are one line on standard error, without a stack trace.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

DONE, FAILED, USAGE, NOT_RUNNING = 0, 1, 2, 3
INTERRUPTED = 128
"""Added to the number of the signal that ended a command: the exit status that shells expect. Source: POSIX, Shell, 2.8.2."""
ENDED = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
"""Signals upon which a command leaves things in order: Ctrl-C, a service manager, a terminal that is closed."""

SUPERVISING = "up", "restart", "demo", "service"
"""Commands that stay root, since a unit of HOME's owner could make that account root, and write log lines of their own."""


class InterruptedBySignal(KeyboardInterrupt):
    """A signal that is to end the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    """Run the command line and exit with its status."""
    for number in ENDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` and scripts leave it
            signal.signal(number, _end)
    _end_at_once()
    try:
        status = _main()
    except KeyboardInterrupt as error:
        status = _interrupted(error)
    sys.exit(status)


def _main() -> int:
    if any(name.lower().endswith("_proxy") for name in os.environ):
        from resources.proxies import exempt_this_machine

        exempt_this_machine()
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        if sys.argv[1] not in SUPERVISING:
            _prepare()
        _name_unknown_settings()
    return run(sys.argv[1:])


def _prepare() -> None:
    from resources.logging import log_to_stderr

    log_to_stderr("warning", "cli")
    if os.geteuid() == 0:
        _write_as_owner()


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    from cyclopts import CycloptsError

    from orchestration.cli.app import app

    try:
        result = app(list(arguments), exit_on_error=False, print_error=True)
    except CycloptsError:
        return USAGE  # cyclopts has printed the reason
    except KeyboardInterrupt as error:
        return _interrupted(error)
    except BrokenPipeError:
        sys.stdout = None  # the reader of our output has gone: exit without another message
        return FAILED
    except Exception as error:  # noqa: BLE001 # the edge of the process; explain() reports every error
        return explain(error)
    return result if isinstance(result, int) else DONE


def _end(number: int, _frame: object) -> None:
    """Let the command clean up. Another Ctrl-C ends it at once."""
    for one in ENDED:
        signal.signal(one, signal.SIG_DFL if one == signal.SIGINT else _ignore)
    raise InterruptedBySignal(number)


def _end_at_once() -> None:
    """Let another Ctrl-C end a command that has not noticed the first: in a call to an object store that hangs, which takes minutes, no
    handler runs.
    """
    received, sent = os.pipe()
    os.set_blocking(sent, False)
    signal.set_wakeup_fd(sent, warn_on_full_buffer=False)

    def look() -> None:
        before = False
        while number := os.read(received, 1):
            if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) == _end:
                if before:
                    os._exit(INTERRUPTED + signal.SIGINT)
                before = True

    Thread(target=look, name="signals", daemon=True).start()


def _ignore(_number: int, _frame: object) -> None:
    """Ignore a signal. Unlike SIG_IGN, this is not inherited by processes that are started meanwhile."""


def _interrupted(error: KeyboardInterrupt) -> int:
    number = error.number if isinstance(error, InterruptedBySignal) else signal.SIGINT
    with suppress(OSError):  # the terminal may be gone
        sys.stderr.write("Interrupted: run the command again.\n")
    return INTERRUPTED + number


def _name_unknown_settings() -> None:
    from orchestration.diagnosis.unknown_settings import unknown_settings

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

    found = _store_fault(error)
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


def _store_fault(error: Exception) -> str | None:
    """Return the reason for an error of a store: a HOME of another account, a full disk, an object store, a database of another version.
    None for any other.
    """
    import errno

    from orchestration.supervision.rights import of_another_account
    from resources.core.errors import ConfigurationError
    from resources.settings import load
    from resources.stores.damage import of_a_disk, of_an_object_store, of_the_schema

    try:
        settings = load()
        of_home = isinstance(error, PermissionError) and str(error.filename).startswith(str(settings.home))
        if of_home and (other := of_another_account(settings.home)):
            return other
        found = of_a_disk(error, settings) or of_an_object_store(error) or of_the_schema(error)
    except ConfigurationError:
        return None
    if found is not None:
        return str(found)
    if isinstance(error, OSError) and error.errno in {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
    }:
        # of a copy, the second is the file that is written
        return f"Cannot write {error.filename2 or error.filename or 'a file'}: {error.strerror}."
    return None


def _log_trace() -> str:
    import traceback

    from resources.core.errors import ConfigurationError
    from resources.logging import mask
    from resources.settings import load

    try:
        log = load().home / "logs" / "cli.log"
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(mask(f"{' '.join(sys.argv)}\n{traceback.format_exc()}\n"))
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
