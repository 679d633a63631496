"""Measure when uploads are searchable, through HTTP, Dagster and both stores."""

from __future__ import annotations

import itertools
import random
import re
import sys
import time
from pathlib import Path

import httpx

from resources.settings import Settings
from serving.identity.tokens import mint

SEED = 7
LARGE_BYTES = 5_000_000


def upload_to_searchable(settings: Settings) -> float:
    """Return the seconds from upload to search result, through HTTP, Dagster and both stores; the median of three."""
    token = mint(settings, "bench@example.org")
    took: list[float] = []
    with httpx.Client(base_url=settings.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for number in range(3):
            word = f"quixotropolis{number}"
            text = f"# Note {number}\n\nThe password of the old lighthouse is {word}, said the keeper twice.\n".encode()
            started = time.perf_counter()
            client.post("/api/upload", files={"file": (f"note-{number}.md", text, "text/markdown")}).raise_for_status()
            _until_found(client, word, 120)
            took.append(time.perf_counter() - started)
    print("upload to searchable, s:", [round(value, 2) for value in took], file=sys.stderr, flush=True)
    return round(sorted(took)[1], 2)


def _until_found(client: httpx.Client, word: str, seconds: float) -> None:
    started = time.perf_counter()
    while True:
        found = client.post("/api/rag/search", json={"query": word, "mode": "keyword"})
        if found.status_code == 200 and found.json()["results"]:
            return
        if time.perf_counter() - started > seconds:
            sys.exit(f"The upload was not found within {seconds:.0f} s.")
        time.sleep(0.5)


def beside_large_file(settings: Settings) -> dict[str, float]:
    """Return the seconds until notes are searchable: one uploaded together with a text of 5 MB, and one while that is being embedded."""
    figures: dict[str, float] = {}
    token = mint(settings, "bench@example.org")
    rng = random.Random(SEED)
    vocabulary = vocabulary_of_samples()
    paragraphs = (" ".join(rng.choices(vocabulary, k=80)).capitalize() + ".\n" for _ in itertools.count())
    text = "# Annals\n\nThis is the annalopolis.\n"
    while len(text) < LARGE_BYTES:
        text += "\n" + next(paragraphs)
    with httpx.Client(base_url=settings.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:

        def send(name: str, content: str) -> float:
            file = (name, content.encode(), "text/markdown")
            client.post("/api/upload", files={"file": file}).raise_for_status()
            return time.perf_counter()

        began = send("annals.md", text)
        sent = send("together.md", "# Together\n\nThe togetheropolis lies beside the large file.\n")
        _until_found(client, "togetheropolis", 600)
        figures["note_with_large_file_s"] = round(time.perf_counter() - sent, 2)
        sent = send("meanwhile.md", "# Meanwhile\n\nThe meanwhileopolis came later.\n")
        _until_found(client, "meanwhileopolis", 600)
        figures["note_during_large_file_s"] = round(time.perf_counter() - sent, 2)
        _until_found(client, "annalopolis", 600)
        figures["large_file_s"] = round(time.perf_counter() - began, 2)
    return figures


def vocabulary_of_samples() -> list[str]:
    """Return the distinct words of the sample company's texts, in a fixed order."""
    texts = Path(__file__).resolve().parents[1] / "examples"
    words = {
        word for file in sorted(texts.rglob("*.md")) for word in re.findall(r"[a-z]{2,}", file.read_text().lower())
    }
    return sorted(words)
