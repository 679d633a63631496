"""Measure the parsers on a folder of files: processor seconds and peak memory by format, and the slowest file of each.

`python -m bench.parse FOLDER` or `make bench-parse FOLDERS=FOLDER`. Every file is read in a process of its own, without the confinement
of the pipeline's parsers. Memory counts from the imported parser on.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from assets.stages.parse import parse
from resources.core.errors import DocumentError
from resources.core.filetypes import mime_type

HEAD = 4096
"""Bytes that decide the type of a file."""


class Reading(NamedTuple):
    """How one file was read; `characters` is None for a file that was refused."""

    file: str
    seconds: float
    megabytes: float
    characters: int | None


def read(path: Path) -> Reading:
    """Parse a file in a child process."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        os.write(writes, json.dumps(_parsed(path)).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        answer: dict[str, Any] = json.loads(pipe.read() or b"{}")
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError(f"the parser of {path} died")
    return Reading(path.name, answer["seconds"], answer["megabytes"], answer["characters"])


def _parsed(path: Path) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = path.read_bytes()
    began = time.process_time()
    try:
        characters = len(parse(data, mime_type(path.name, data[:HEAD]), title=path.stem).text)
    except DocumentError:
        characters = None
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": (peak - before) / 1024, "characters": characters}


def main(folders: list[str]) -> int:
    """Print a table and return the exit status."""
    if not folders:
        print("usage: python -m bench.parse FOLDER…", file=sys.stderr)
        return 2
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.is_file())
    formats: defaultdict[str, list[Reading]] = defaultdict(list)
    for path in paths:
        formats[path.suffix.lower() or "none"].append(read(path))
    print(f"{'format':10}{'files':>6}{'refused':>9}{'characters':>12}{'CPU s':>8}{'peak MB':>9}  slowest")
    for name, readings in sorted(formats.items(), key=lambda pair: -sum(one.seconds for one in pair[1])):
        slowest = max(readings, key=lambda one: one.seconds)
        refused = sum(one.characters is None for one in readings)
        characters = sum(one.characters or 0 for one in readings)
        print(
            f"{name:10}{len(readings):6}{refused:9}{characters:12,}"
            f"{sum(one.seconds for one in readings):8.2f}{max(one.megabytes for one in readings):9.0f}"
            f"  {slowest.file} ({slowest.seconds:.2f} s)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
