"""Drop root's privileges for good and exec another program: `python drop_rights.py UID GID PASS COMMAND...`.

The command replaces this process and runs as that user, in no other group. With `pass` instead of `-`, it keeps one of root's
capabilities, CAP_DAC_OVERRIDE, to get past folders that are closed to its user. This is a separate program, run by path,
because these calls are not safe between fork and exec in a process with threads. It imports nothing of ours, so that it
starts within hundredths of a second.
"""

from __future__ import annotations

import os
import signal
import sys

CAP_DAC_OVERRIDE = 1
"""Source: capabilities(7), linux/capability.h. Numbers below: linux/prctl.h, linux/securebits.h, capset(2)."""

PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
"""Keeps capabilities across the change of user, and makes access(2) honour them; Postgres uses it to find its own program."""

PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION = 0x20080522


def drop(uid: int, gid: int, *, keep_pass: bool) -> None:
    """Become that user. Raises `OSError` if the system does not allow it."""
    if keep_pass:
        _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if keep_pass:
        _keep_only(CAP_DAC_OVERRIDE)
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE)


def _prctl(option: int, *values: int) -> None:
    import ctypes

    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _keep_only(capability: int) -> None:
    """Reduce this process's capabilities to one, inherited by the programs that it starts."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    # Effective, permitted, inheritable: first for capabilities 0-31, then for the rest.
    sets = (ctypes.c_uint32 * 6)(*[1 << capability] * 3, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def main(arguments: list[str]) -> None:
    """Drop privileges and exec the command; exit with a line on stderr if that fails."""
    uid, gid, keep, *command = arguments
    try:
        drop(int(uid), int(gid), keep_pass=keep == "pass")
        # Python ignores these two signals, and a program started by exec would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 # replacing this process is the purpose
    except (OSError, ImportError) as error:
        sys.exit(f"{command[0]} cannot be run as user {uid}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
