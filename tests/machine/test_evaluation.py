"""`concordance eval` on a tiny collection, from files to measures, with only its own vector server running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestration.evaluation.collection import read_collection
from orchestration.evaluation.quality import configuration, evaluate
from resources.settings import Settings

WHALES = "Humpback whales sing long songs under water, and other whales learn them. "
DOCUMENTS = [
    {"_id": "whales", "title": "Songs of the sea", "text": WHALES},
    {"_id": "copy", "title": "Songs of the sea", "text": WHALES},
    {
        "_id": "expenses",
        "title": "Travel expenses",
        "text": "Receipts are due within thirty days; form TX-7 is for taxis.",
    },
    {"_id": "bread", "title": "", "text": "Bread needs flour, water, salt and time. " * 80},
    {"_id": "empty", "title": "", "text": ""},
]
QUERIES = [
    {"_id": "1", "text": "Which animals make music?"},
    {"_id": "2", "text": "TX-7"},
    {"_id": "3", "text": "How is bread made? " * 80},  # longer than the interface allows
    {"_id": "4", "text": "not judged"},
]
QRELS = [("1", "whales", 1), ("1", "copy", 1), ("2", "expenses", 1), ("3", "bread", 2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny sea"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, DOCUMENTS)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, QUERIES)))
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in QRELS)]
    (folder / "qrels.tsv").write_text("\n".join(lines))
    return folder


@pytest.fixture
def settings(tmp_path: Path, models_home: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(models_home)
    return Settings(_env_file=None, home=home)


def test_everything_is_found_and_nothing_embedded_twice(folder: Path, settings: Settings) -> None:
    said: list[str] = []
    hybrid = configuration(settings)
    others = [configuration(settings, text) for text in ("rrf", "keyword")]
    report = evaluate(settings, folder, hybrid=hybrid, others=others, progress=said.append)
    assert (report.collection, report.documents, report.queries) == ("tiny sea", 5, 3)
    assert report.hybrid.ndcg_10 == report.hybrid.recall_10 == report.hybrid.mrr == 1
    assert report.keyword.recall_50 < 1  # the first question has no word in common with its documents
    assert 0 < report.latency_ms.p50 <= report.latency_ms.p95
    assert [one.second for one in report.compare] == ["rrf/50/0.7/0.3", "keyword/50"]
    assert report.compare[1].result.difference > 0
    assert any(line.startswith("Embedding") for line in said)

    said.clear()
    again = evaluate(settings, folder, hybrid=hybrid, progress=said.append)
    assert again.hybrid == report.hybrid
    assert not any(line.startswith("Embedding") for line in said)
    assert [path.name for path in (settings.home / "eval").iterdir()] == ["lake"]


def test_documents_with_the_same_text_both_count(folder: Path) -> None:
    found = read_collection(folder)
    assert found.judgements["1"] == {"whales": 1, "copy": 1}


def test_the_command_needs_only_the_folder(folder: Path, settings: Settings, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    answer = command(elsewhere, settings, "eval", str(folder), "--json", "--fusion", "dbsf", "--depth", "20")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    assert set(found) >= {"collection", "documents", "queries", "dense", "keyword", "hybrid", "latency_ms"}
    assert (found["shortest_queries"]["words"], found["longest_queries"]["words"]) == ([1, 1], [320, 320])
    assert found["ndcg@10_by_query"]["hybrid"] == {"1": 1, "2": 1, "3": 1}
    assert set(found["hybrid"]) == {"ndcg@10", "recall@10", "recall@50", "mrr", "ci95"}
    assert len(found["hybrid"]["ci95"]) == 2
    assert set(found["latency_ms"]) == {"p50", "p95"}
    assert not any(elsewhere.iterdir())

    (tmp_path / "earlier.json").write_text(answer.stdout)
    again = command(elsewhere, settings, "eval", str(folder), "--compare", str(tmp_path / "earlier.json"))
    assert again.returncode == 0, again.stderr
    assert "earlier.json 1.0000: +0.0000" in again.stdout
    assert "longest third, 1 queries of 320 to 320 words" in again.stdout

    wrong = command(elsewhere, settings, "eval", str(tmp_path))
    assert wrong.returncode == 2
    assert "BEIR layout" in wrong.stderr


def command(cwd: Path, settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestration.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "CONCORDANCE_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        check=False,
    )
