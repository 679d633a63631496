"""Gives up root's rights for good and becomes another program: `python drop_rights.py UID GID PASS COMMAND...`.

Enter: numbers of a user and a group, `pass` or `-`, and a command. Leave: that command in this very process, as that user, in no
other group. With `pass` it keeps one right of root's, CAP_DAC_OVERRIDE, and so gets past folders that are closed to its user.
A program of its own, run by path: between fork and exec of a process with threads there is no safe place for these calls. It
imports nothing of ours, so that it starts in hundredths of a second.
"""

from __future__ import annotations

import os
import signal
import sys

CAP_DAC_OVERRIDE = 1
"""Source: capabilities(7), linux/capability.h. The numbers below: linux/prctl.h, linux/securebits.h, capset(2)."""

PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
"""Keeps capabilities over the change of user, and counts them in access(2), by which Postgres looks for its own program."""

PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION = 0x20080522


def drop(uid: int, gid: int, *, keep_pass: bool) -> None:
    """Become that user. Raises `OSError` when the system does not allow it."""
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
    """Reduce this process's capabilities to one, inheritable by the programs that it starts."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    # Effective, permitted, inheritable: first for the capabilities 0-31, then for the rest.
    sets = (ctypes.c_uint32 * 6)(*[1 << capability] * 3, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def main(arguments: list[str]) -> None:
    """Drop rights and become the command; end with a line on stderr when that is impossible."""
    uid, gid, keep, *command = arguments
    try:
        drop(int(uid), int(gid), keep_pass=keep == "pass")
        # Python ignores these two, and a program started by exec would go on ignoring them.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 # becoming that program is the purpose
    except (OSError, ImportError) as error:
        sys.exit(f"{command[0]} cannot be run as user {uid}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
