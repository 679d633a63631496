"""Confine the parser process, so that a file that compromises a parser can reach no network, program or secret.

The layers are independent, so that a system without one still has the others: kernel limits on the process, a system call
filter (seccomp), and a file system view that contains only the interpreter and its packages (Landlock). Run as
`python -m assets.parsing.confinement`, the module confines itself and prints what this system enforces; `concordance doctor` shows it.
"""

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from resources.core.errors import ServiceUnavailableError
from resources.servers.drop_rights import hand_on_nothing, limit
from resources.servers.privileges import passing

OPEN_FILES = 64
_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("assets", "resources")
"""Our packages that a parser imports. The root of a checkout stays unreadable, because it may contain `.env` and HOME."""
_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime",
    "/dev/null", "/dev/urandom", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
_REFUSED = (
    # other programs and processes
    "fork", "vfork", "execve", "execveat", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "pidfd_getfd", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp",
    "setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr", "move_pages", "migrate_pages",
    # the network and other channels between processes
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg", "recvmsg",
    "recvmmsg", "recvfrom", "shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "semget", "semop", "mq_open",
    # ways around the filter, and parts of the kernel that a parser does not need
    "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "memfd_create",
    "keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at", "mount", "umount2", "fsopen", "fsmount",
    "move_mount", "open_tree", "pivot_root", "chroot", "unshare", "setns", "personality", "init_module", "finit_module",
    "delete_module", "kexec_load", "reboot", "swapon", "swapoff", "quotactl", "acct", "syslog", "settimeofday",
    "clock_settime", "sethostname", "setdomainname", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
    "setgroups", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "utimensat", "fanotify_init",
)  # fmt: skip
_CLONE_THREAD = 0x10000
_SIGNALLING_FCNTL = (8, 10, 15)
"""F_SETOWN, F_SETSIG and F_SETOWN_EX: they make the kernel send signals to other processes. Source: linux/fcntl.h."""
_WORD = 0xFFFFFFFF
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


class Confinement(msgspec.Struct, frozen=True):
    """The layers that are enforced on a process, and those that are missing, each with the reason."""

    enforced: tuple[str, ...]
    missing: dict[str, str]


class _UnavailableError(Exception):
    """The system lacks a layer; the message is the reason."""


def confine(cpu_seconds: float) -> Confinement:
    """Permanently drop what parsing does not need. A layer that the system lacks is reported, and the next one is applied.

    The process must be single-threaded: the system call filter and the file system view apply to the calling thread and its
    children. `cpu_seconds` limits the processor time of the whole process, which a compromised parser cannot extend.
    """
    layers: tuple[tuple[str, Callable[[], None]], ...] = (
        ("no new privileges", _no_new_privileges),
        ("no capabilities", _drop_capabilities),
        ("system calls", _filter_calls),  # before the files: finding its library runs a program
        ("readable files", _close_files),
        ("limits", lambda: _limit(cpu_seconds)),
    )
    enforced: list[str] = []
    missing: dict[str, str] = {}
    for name, apply in layers:
        try:
            apply()
            enforced.append(name)
        except _UnavailableError as fault:
            missing[name] = str(fault)
        except OSError as fault:
            missing[name] = f"the kernel refuses it ({errno.errorcode.get(fault.errno or 0, 'unknown')})"
    if "system calls" in missing:
        # The limit also counts threads, which only text recognition in images uses; root is exempt.
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    return Confinement(tuple(enforced), missing)


def _limit(cpu_seconds: float) -> None:
    whole = max(1, int(cpu_seconds) + 1)
    for name, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CPU, whole),
    ):
        resource.setrlimit(name, (most, most))


def _no_new_privileges() -> None:
    if sys.platform != "linux":
        raise _UnavailableError("only Linux has it")
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _drop_capabilities() -> None:
    """Drop all capabilities, and stop programs from inheriting any.

    If the interpreter is in a folder closed to this account, the capability to pass closed folders stays. Landlock then limits it.
    """
    if sys.platform != "linux":
        raise _UnavailableError("only Linux has capabilities")
    hand_on_nothing()
    wanted = [path for path in _readable() if path.exists()]
    way = passing()
    limit(for_now=True)
    limit([] if all(map(_is_open, wanted)) else [way])


def _is_open(path: Path) -> bool:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
    except PermissionError:
        return False
    return True


def _readable() -> Iterator[Path]:
    """Yield the paths that the interpreter and the packages need."""
    yield from map(Path, _SYSTEM)
    yield from (_ROOT / name for name in _OWN)
    if sys.pycache_prefix:
        yield Path(sys.pycache_prefix)
    for entry in {sys.prefix, sys.base_prefix}:
        yield from (Path(entry) / name for name in ("lib", "lib64", "share/tessdata", "pyvenv.cfg"))
    checkout = (_ROOT / "pyproject.toml").exists()
    for entry in (Path(entry).resolve() for entry in sys.path if entry):
        if entry != _ROOT or not checkout:
            yield entry


def _close_files() -> None:
    """Make only the interpreter, the packages and our own code readable, and nothing writable. Open descriptors stay open."""
    if sys.platform != "linux":
        raise _UnavailableError("only Linux has Landlock")
    import landlockpy
    from landlockpy import AccessFS, Scope

    if not landlockpy.abi_version():
        raise _UnavailableError("the kernel has no Landlock, or it is switched off at boot")
    with landlockpy.Ruleset(scoped=Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET) as rules:
        for path in _readable():
            if path.exists():
                kind = AccessFS.READ_FILE | AccessFS.READ_DIR if path.is_dir() else AccessFS.READ_FILE
                rules.allow_path(path, kind)
        rules.allow_path(_ROOT, AccessFS.READ_DIR)  # the import system lists it to find our packages
        rules.restrict()


def _filter_calls() -> None:
    """Refuse system calls that parsing never makes, with EPERM: a library that tries one sees an ordinary error."""
    if sys.platform != "linux":
        raise _UnavailableError("only Linux has seccomp")
    try:
        import pyseccomp
    except (RuntimeError, AttributeError, OSError) as fault:
        raise _UnavailableError("the library libseccomp.so.2 is not installed") from fault

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refuse = pyseccomp.ERRNO(errno.EPERM)
    for name in _REFUSED:
        try:
            rules.add_rule(refuse, name)
        except (OSError, ValueError):  # this architecture, or this version of the library, does not know the call
            continue
    arg, own = pyseccomp.Arg, os.getpid()
    rules.add_rule(refuse, "clone", arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, 0))
    # Its flags are in memory, which no filter can read; the C library then falls back to clone for threads.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(refuse, "tgkill", arg(0, pyseccomp.NE, own))  # abort() signals the process itself
    rules.add_rule(refuse, "prctl", arg(0, pyseccomp.MASKED_EQ, _WORD, _PR_SET_PDEATHSIG))  # it ends with its parent
    rules.add_rule(refuse, "prlimit64", arg(0, pyseccomp.NE, 0))
    rules.add_rule(refuse, "sched_setaffinity", arg(0, pyseccomp.NE, 0))
    for command in _SIGNALLING_FCNTL:
        rules.add_rule(refuse, "fcntl", arg(1, pyseccomp.MASKED_EQ, _WORD, command))
    rules.load()


def examine() -> Confinement:
    """Return what this system enforces, by trying it in a separate process. Raises `ServiceUnavailableError`."""
    import subprocess

    from assets.parsing.process import environment

    done = subprocess.run(
        [sys.executable, "-m", "assets.parsing.confinement"],
        cwd=_ROOT,
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    try:
        return msgspec.json.decode(done.stdout, type=Confinement)
    except msgspec.DecodeError as error:
        raise ServiceUnavailableError(
            f"The process that parses files could not be confined: {done.stderr.decode(errors='replace').strip()[-500:]}"
        ) from error


if __name__ == "__main__":
    os.write(1, msgspec.json.encode(confine(60)))
