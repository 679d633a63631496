"""Measure how long the source `files` takes to list an unchanged folder, in full and by known keys, beside a bare walk of it.

Usage: python bench/listing.py [--files 50000] [--sidecars 0.1]. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from assets.intake.shown import UnchangedDocuments
from resources.settings import Settings
from resources.sources.files import Files

PER_FOLDER = 100


def make(folder: Path, files: int, with_sidecar: float) -> None:
    """Fill a folder with small files, some of them with a sidecar."""
    inner = folder
    every = round(1 / with_sidecar) if with_sidecar else 0
    for number in range(files):
        if number % PER_FOLDER == 0:
            inner = folder / f"{number // 10_000:02}" / f"{number // PER_FOLDER:04}"
            inner.mkdir(parents=True)
        file = inner / f"{number:06}.md"
        file.write_text(f"# {number}\n", encoding="utf-8")
        if every and number % every == 0:
            file.with_name(file.name + ".meta.json").write_text('{"permissions": ["eng@acme.com"]}', encoding="utf-8")


def walk(folder: str) -> int:
    """Count the files below a folder and read their sizes: the minimum work of any listing."""
    count = 0
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            count += walk(entry.path)
        else:
            count += entry.stat(follow_symlinks=False).st_size >= 0
    return count


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--sidecars", type=float, default=0.1, help="share of the files that have one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), arguments.files, arguments.sidecars)
        root = {"name": "bench", "url": Path(folder).as_uri(), "tenant": "acme", "dataset": "bench"}
        settings = Settings(_env_file=None, home=Path(folder) / ".home", file_roots=json.dumps([root]))  # type: ignore
        source = Files(settings)
        source.known_keys = none = UnchangedDocuments(b"", b"", 0)
        listed = [key for batch in source.changes("bench", None) for key in batch.keys.values()]
        if len(listed) != arguments.files:
            raise SystemExit(f"listed {len(listed)} of {arguments.files} files")
        keys, counts = np.unique(listed, return_counts=True)
        known = UnchangedDocuments(keys.astype(">i8").tobytes(), counts.astype(">i4").tobytes(), len(listed))
        best: dict[str, float] = dict.fromkeys(("bare_walk_s", "in_full_s", "known_s"), float("inf"))
        for _ in range(3):
            for name, compared in (("bare_walk_s", None), ("in_full_s", none), ("known_s", known)):
                started = time.perf_counter()
                if compared is None:
                    walk(folder)
                else:
                    source.known_keys = compared
                    shown = sum(len(batch.seen) for batch in source.changes("bench", None))
                    if shown != (0 if compared is known else arguments.files):
                        raise SystemExit(f"{shown} of {arguments.files} files are shown")
                best[name] = min(best[name], time.perf_counter() - started)
    figures = {"files": arguments.files, "sidecars": arguments.sidecars, **{k: round(v, 3) for k, v in best.items()}}
    print(
        f"{arguments.files:,} files: described in {figures['in_full_s']} s, known by their keys in {figures['known_s']} s; "
        f"a bare walk takes {figures['bare_walk_s']} s"
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
