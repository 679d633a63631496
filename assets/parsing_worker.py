"""The process that parses: jobs enter on standard input, one outcome a job leaves on standard output, in order.

Run by `assets.parsing` as `python -m assets.parsing_worker SECONDS MEMORY_MB`. It confines itself before the first job
(`assets.confinement`) and opens no file of the lake: the bytes of each file follow its job. A file that takes too much processor time ends
the process by its timer, one that takes too much memory ends in `MemoryError` or a crash; the pool tells from the exit what happened. The
process ends when its input closes, so it never outlives its parent.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import struct
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import msgspec

from assets.confinement import confine
from resources.domain import ParsedDocument
from resources.errors import DocumentError, SkipDocumentError

FRAME = struct.Struct("!I")
"""A frame is its length, then so many bytes: a job as msgpack, then its file in frames, the last of which is empty."""
UNREADABLE = 2**32 - 1
"""In place of a frame's length: the rest of the file cannot be read."""

WALL_FACTOR = 10
"""Time on the clock for each second of processor time. The latter depends on the file alone, so that a file which exceeds it does
so again; the former also on how busy the machine is.
"""
START_SECONDS = 60
"""Time for the process to become ready; one that hangs here would hang its parent."""
CPU_FACTOR = 20
"""The process makes room for a fresh one after this many times a file's processor time, and never gets more than one file beyond it."""
_LIBRARIES = (
    "assets.stages.parse.markdown", "assets.stages.parse.html", "assets.stages.parse.pdf", "assets.stages.parse.docx",
    "assets.stages.parse.pptx", "assets.stages.parse.xlsx", "assets.stages.parse.image", "assets.stages.parse.records",
    "markdown_it", "selectolax.lexbor", "pypdf", "docx", "pptx", "python_calamine", "charset_normalizer", "PIL.Image",
)  # fmt: skip


class ParseJob(msgspec.Struct, frozen=True, kw_only=True):
    """One file to parse: the pool reads it from `path` and sends the bytes; `data` is for bytes that are no local file."""

    key: str
    mime_type: str
    title: str
    path: str | None = None
    data: bytes | None = None
    description: str | None = None
    profile: str = "auto"
    content_hash: str | None = None
    """sha256 in hex that the bytes must have; None: they are not compared."""


class ParseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job: a document, or an error with a reason for a person (`skipped`: trying again will not help)."""

    key: str
    document: ParsedDocument | None = None
    error: str | None = None
    skipped: bool = False
    seconds: float = 0.0
    unread: bool = False
    """The stored bytes are missing or damaged: nothing is known of the file itself."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of the worker: ready (no outcome), or the outcome of the oldest job that it holds."""

    outcome: ParseOutcome | None = None
    leaving: bool = False
    """The worker ends after this and leaves the rest of its jobs undone, because its memory has grown."""


def perform(job: ParseJob, data: bytes | None) -> ParseOutcome:
    """Parse one file, None if it could not be read. Every error becomes an outcome."""
    from assets.stages.parse import parse

    if data is None:
        return ParseOutcome(key=job.key, error="The stored file could not be read.", unread=True)
    started = time.monotonic()
    document, error, skipped = None, None, False
    try:
        document = parse(data, job.mime_type, title=job.title, description=job.description, profile=job.profile)
    except DocumentError as fault:
        error, skipped = str(fault), isinstance(fault, SkipDocumentError)
    except MemoryError:
        error = "memory"
    return ParseOutcome(
        key=job.key, document=document, error=error, skipped=skipped, seconds=time.monotonic() - started
    )


_ADDRESS_SPACE, _RESIDENT = 0, 1


def _memory(field: int) -> int:
    """Return the bytes that this process takes now. Source: proc(5), `/proc/pid/statm`.

    Not `ru_maxrss`: across fork and exec it starts from the parent's, so children of a large parent look large.
    """
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[field]) * resource.getpagesize()


def _bound_memory(megabytes: int) -> None:
    """Let the process grow by so much from where it stands now."""
    limit = _memory(_ADDRESS_SPACE) + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _read(stream: BinaryIO) -> bytes | None:
    """Return the next frame. None: the input has closed, or the file that was on its way cannot be read."""
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    (length,) = FRAME.unpack(head)
    if length == UNREADABLE:
        return None
    body = stream.read(length)
    return body if len(body) == length else None


def _read_file(stream: BinaryIO) -> bytes | None:
    file = io.BytesIO()
    while part := _read(stream):
        file.write(part)
    return None if part is None else file.getvalue()


def _compile_libraries() -> None:
    """Import the libraries that were never compiled: confined, the process could not keep the result for the next one."""
    for name in _LIBRARIES:
        found = find_spec(name)
        if found is not None and found.cached is not None and not Path(found.cached).exists():
            import_module(name)


def main(seconds: float, memory_mb: int) -> None:
    """Serve jobs until the input closes."""
    signal.setitimer(signal.ITIMER_REAL, max(WALL_FACTOR * seconds, START_SECONDS))
    source = sys.stdin.buffer
    # Libraries that print would corrupt the stream: they get standard error instead.
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    encoder = msgspec.msgpack.Encoder()
    decoder = msgspec.msgpack.Decoder(ParseJob)
    _compile_libraries()
    confine(time.process_time() + (CPU_FACTOR + 2) * seconds)
    _bound_memory(memory_mb)

    def send(report: Report) -> None:
        body = encoder.encode(report)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        target.write(FRAME.pack(len(body)) + body)
        target.flush()

    send(Report())
    while (body := _read(source)) is not None:
        job = decoder.decode(body)
        data = _read_file(source)
        # The default action of both signals ends the process, also from within C code that never returns to Python.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * seconds)
        outcome = perform(job, data)
        del data
        leaving = _memory(_RESIDENT) > memory_mb * 2**20 // 2 or time.process_time() > CPU_FACTOR * seconds
        send(Report(outcome=outcome, leaving=leaving))
        if leaving:
            return


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), int(sys.argv[2]))
    except BrokenPipeError:
        os._exit(0)  # the parent is gone; nothing is left to say or to flush
