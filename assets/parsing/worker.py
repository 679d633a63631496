"""The parser process: read jobs from standard input and write one report per job to standard output, in order.

`assets.parsing.pool` runs it as `python -m assets.parsing.worker SECONDS MEMORY_MB`. It confines itself before the first job
(`assets.parsing.confinement`) and opens no file of the lake: the bytes of each file follow its job. If a file takes too much processor
time, a timer ends the process; if it takes too much memory, the result is `MemoryError` or a crash. The pool derives the cause
from the exit status. The process ends when its input closes, and is killed with its parent.
"""

import io
import os
import resource
import signal
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import msgspec

from assets.parsing.confinement import confine
from resources.core.domain import ParsedDocument
from resources.core.errors import DocumentError, SkipDocumentError
from resources.core.texts import storable
from resources.servers.lines import line

WALL_FACTOR = 10
"""Wall-clock seconds allowed per second of processor time. Processor time depends on the file alone, so a file that exceeds the limit
will do so again; wall-clock time also depends on the load of the machine.
"""
START_SECONDS = 60
"""Time limit for the process to become ready, because a hanging start would block its parent."""
CPU_FACTOR = 20
"""The process is replaced after this multiple of a file's processor time limit; it may exceed that by at most one file."""
_LIBRARIES = (
    "assets.stages.parse.markdown", "assets.stages.parse.html", "assets.stages.parse.pdf", "assets.stages.parse.docx",
    "assets.stages.parse.pptx", "assets.stages.parse.xlsx", "assets.stages.parse.image", "assets.stages.parse.records",
    "assets.stages.parse.odf", "assets.stages.parse.rtf", "assets.stages.parse.epub", "assets.stages.parse.eml",
    "assets.stages.parse.msg", "assets.stages.parse.tnef", "assets.stages.parse.source", "markdown_it",
    "selectolax.lexbor", "pypdf", "pypdfium2", "lxml.etree",
    "python_calamine", "charset_normalizer", "PIL.Image", "striprtf.striprtf", "oxmsg",
)  # fmt: skip


class ParseJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file to parse: the pool reads it from `path`; `data` is for bytes that are not in a local file.

    The worker receives a line without both, and then the parts of the file.
    """

    key: str
    mime_type: str
    title: str
    path: str | None = None
    data: bytes | None = None
    description: str | None = None
    content_hash: str | None = None
    """Expected SHA-256 of the bytes in hex; None: not checked."""


class FilePart(msgspec.Struct, frozen=True):
    """A line to the worker, which so many bytes of the file follow. 0: the file is complete; None: the rest cannot be read."""

    size: int | None


class ParseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a job: a document, or an error with a human-readable reason (`skipped`: a retry will not help)."""

    key: str
    document: ParsedDocument | None = None
    error: str | None = None
    skipped: bool = False
    seconds: float = 0.0
    unread: bool = False
    """True if the stored bytes are missing or damaged, so that the file itself was not parsed."""


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A line from the worker: ready (no outcome), or the outcome of its oldest job."""

    outcome: ParseOutcome | None = None
    leaving: bool = False
    """True if the worker exits after this report and leaves its other jobs undone, because its memory has grown."""


def perform(job: ParseJob, data: bytes | None) -> ParseOutcome:
    """Parse one file; `data` is None if it could not be read. Every error becomes an outcome."""
    from assets.stages.parse import parse

    if data is None:
        return ParseOutcome(key=job.key, error="The stored file could not be read.", unread=True)
    started = time.monotonic()
    document, error, skipped = None, None, False
    try:
        document = parse(data, job.mime_type, title=job.title, description=job.description)
    except DocumentError as fault:
        error, skipped = storable(str(fault)), isinstance(fault, SkipDocumentError)
    except MemoryError:
        error = "memory"
    return ParseOutcome(
        key=job.key, document=document, error=error, skipped=skipped, seconds=time.monotonic() - started
    )


_ADDRESS_SPACE, _RESIDENT = 0, 1


def _memory(field: int) -> int:
    """Return the current memory of this process in bytes. Source: proc(5), `/proc/pid/statm`.

    `ru_maxrss` is not used: across fork and exec it starts from the parent's value, so children of a large parent look large.
    """
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[field]) * resource.getpagesize()


def _bound_memory(megabytes: int) -> None:
    """Limit the growth of the process from its current size. Linux only: macOS refuses limits below what it has mapped."""
    if sys.platform != "linux":
        return
    limit = _memory(_ADDRESS_SPACE) + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _read_file(stream: BinaryIO, decoder: msgspec.json.Decoder[FilePart]) -> bytes | None:
    """Return the bytes that follow a job, or None if the input has closed or the file cannot be read."""
    file = io.BytesIO()
    while head := stream.readline():
        size = decoder.decode(head).size
        if size is None:
            return None
        if size == 0:
            return file.getvalue()
        file.write(stream.read(size))
    return None


def _compile_libraries() -> None:
    """Import libraries that have no bytecode yet: once confined, the process could not save it for the next one."""
    for name in _LIBRARIES:
        found = find_spec(name)
        if found is not None and found.cached is not None and not Path(found.cached).exists():
            import_module(name)


def main(seconds: float, memory_mb: int) -> None:
    """Process jobs until the input closes."""
    signal.setitimer(signal.ITIMER_REAL, max(WALL_FACTOR * seconds, START_SECONDS))
    source = sys.stdin.buffer
    # Libraries that print would corrupt the stream, so they get standard error instead.
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs, parts = msgspec.json.Decoder(ParseJob), msgspec.json.Decoder(FilePart)
    _compile_libraries()
    confine(time.process_time() + (CPU_FACTOR + 2) * seconds)
    _bound_memory(memory_mb)

    def send(report: WorkerReport) -> None:
        message = line(report)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        target.write(message)
        target.flush()

    send(WorkerReport())
    while received := source.readline():
        job = jobs.decode(received)
        data = _read_file(source, parts)
        # The default action of both signals ends the process even in C code that never returns to Python.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * seconds)
        outcome = perform(job, data)
        del data
        leaving = _memory(_RESIDENT) > memory_mb * 2**20 // 2 or time.process_time() > CPU_FACTOR * seconds
        send(WorkerReport(outcome=outcome, leaving=leaving))
        if leaving:
            return


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), int(sys.argv[2]))
    except BrokenPipeError:
        os._exit(0)  # the parent is gone; nothing is left to report or flush
