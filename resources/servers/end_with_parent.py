"""Exec a program that ends with the process that started it: `python end_with_parent.py PARENT SIGNAL LIFELINE COMMAND...`.

On Linux the kernel sends SIGNAL to the program when the thread that started it ends, and again for each thread that it passes to as
all of them end: a program must bear several. Elsewhere a second process does, once LIFELINE is closed: the descriptor of a pipe whose
other end only PARENT has. This is a separate program, run by path, because such calls
are not safe between fork and exec in a process with threads. It imports nothing of ours, so that it starts within hundredths of a second.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Source: linux/prctl.h."""
LOOK_SECONDS = 1.0


def ask_kernel(number: int) -> bool:
    """Have the kernel send this signal to us when our parent ends. Returns False on systems that cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    return ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0) == 0


def watch(lifeline: int, number: int) -> None:
    """Start a process that sends the signal to this one when the lifeline closes, and ends with it."""
    import select
    from contextlib import suppress
    from pathlib import Path

    watched = os.getpid()
    if os.fork():
        return
    for descriptor in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        if descriptor != lifeline:  # others wait for the end of the program's pipes and sockets
            with suppress(OSError):
                os.close(descriptor)
    while os.getppid() == watched:
        if select.select([lifeline], [], [], LOOK_SECONDS)[0]:
            os.kill(watched, number)
            break
    os._exit(0)


def main(arguments: list[str]) -> None:
    """Exec the command; exit with a line on standard error if that fails."""
    parent, number, lifeline, *command = arguments
    try:
        if not ask_kernel(int(number)):
            watch(int(lifeline), int(number))
        if os.getppid() != int(parent):
            sys.exit("The process that starts this one has ended.")
        os.close(int(lifeline))
        # Python ignores these two signals, and a program started by exec would inherit that.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 # replacing this process is the purpose
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
