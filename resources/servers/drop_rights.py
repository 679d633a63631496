"""Permanently drop root's privileges and exec another program: `python drop_rights.py UID GID CAPABILITIES COMMAND...`.

The command replaces this process and runs as that user, in no other group. CAPABILITIES lists the numbers of those to keep,
joined by commas, or is `-`. This is a separate program, run by path, because these calls are not safe between fork and exec in a
process with threads. It imports nothing of ours, so that it starts within hundredths of a second.
"""

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
"""Keeps capabilities across the change of user, and makes access(2) honour them; Postgres uses it to find its own program.
Source of these numbers: linux/prctl.h, linux/securebits.h, capset(2)."""

PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522


CAP_DAC_READ_SEARCH = 2
"""Source: linux/capability.h."""


def drop(uid: int, gid: int, keep: Sequence[int] = ()) -> None:
    """Become that user and keep these capabilities. Raises `OSError` if the system does not allow it."""
    at_end = _signal_at_end()
    if keep:
        _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if at_end:  # see end_with_parent.py; the kernel forgets it with the change of user
        _prctl(PR_SET_PDEATHSIG, at_end)
    if keep:
        limit(keep)
        for capability in keep:
            _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def limit(keep: Sequence[int] = (), *, for_now: bool = False) -> None:
    """Reduce this process's capabilities to these (numbers below 32), inheritable by the programs that it starts.

    With `for_now`, a later call can bring back the others. Raises `OSError`.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    # Effective, permitted, inheritable: first for capabilities 0-31, then for the rest.
    sets = (ctypes.c_uint32 * 6)()
    if library.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    kept = sum(1 << capability for capability in keep)
    permitted = (sets[1], sets[4]) if for_now else (kept, 0)
    sets = (ctypes.c_uint32 * 6)(kept, permitted[0], kept, 0, permitted[1], 0)
    if library.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def hand_on_nothing() -> None:
    """Stop programs that this process starts from inheriting its capabilities. Raises `OSError`."""
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def _signal_at_end() -> int:
    """Return the signal that the kernel sends us when our parent ends, or 0."""
    if sys.platform != "linux":
        return 0
    import ctypes

    found = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(found), 0, 0, 0)
    return found.value


def _prctl(option: int, *values: int) -> None:
    import ctypes

    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def main(arguments: list[str]) -> None:
    """Drop privileges and exec the command; exit with a line on stderr if that fails."""
    uid, gid, rights, *command = arguments
    try:
        drop(int(uid), int(gid), [] if rights == "-" else [int(number) for number in rights.split(",")])
        # Python ignores these two signals, and a program started by exec would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 # replacing this process is the purpose
    except (OSError, ImportError) as error:
        sys.exit(f"{command[0]} cannot be run as user {uid}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
