"""Search quality does not depend on a model's range of cosines: tested with a model for which no two texts are below 0.7.

Both models are evaluated through `eval`: production stages, a vector server, the production retriever. The other model is the bundled
one behind a service, with a component added that all texts share.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestration.demo import sample
from orchestration.evaluation.quality import EvaluationReport, configuration, evaluate
from resources.settings import Settings
from tests.fixtures.openai_server import OpenAIServer

LIFT = 0.7
MARGIN = 0.02
"""Cosines taken as they come lose twice that."""
RARE = 3
KINDS = (".md", ".txt", ".html", ".csv")
"""Files that can be read as they are."""
_WORD = re.compile(r"\w+")


def lifted(row: np.ndarray) -> np.ndarray:
    """Return the vector with one more dimension, so that a cosine c becomes LIFT + (1 - LIFT) c; the common part is spread evenly."""
    longer = np.append(row * np.sqrt(1 - LIFT), np.sqrt(LIFT))
    mirror = np.full(len(longer), -1 / np.sqrt(len(longer)))  # reflects the last axis onto the diagonal
    mirror[-1] += 1
    mirror /= np.linalg.norm(mirror)
    return longer - 2 * mirror * (mirror @ longer)


@pytest.fixture
def server(bundled_model: Any) -> Iterator[OpenAIServer]:
    with OpenAIServer(embed=lambda text, _: lifted(bundled_model.embed_query(text))) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample company's texts as a test collection, and questions without the words that `RARE` texts or fewer have.

    With these words keywords alone would find everything, and how meaning is weighed would not show.
    """
    folder = tmp_path / "company"
    folder.mkdir()
    files = [path for path in sorted(sample.FOLDER.rglob("*")) if path.suffix in KINDS]
    names = [path.relative_to(sample.FOLDER).as_posix() for path in files]
    texts = [{"_id": name, "text": path.read_text()} for name, path in zip(names, files, strict=True)]
    holders = Counter(word for text in texts for word in set(_WORD.findall(text["text"].lower())))
    asked = [one for one in (*sample.questions(), *sample.questions(more=True)) if one.source_id in names]
    words = [[word for word in _WORD.findall(one.question) if holders[word.lower()] > RARE] for one in asked]
    questions = [{"_id": str(number), "text": " ".join(left)} for number, left in enumerate(words)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, texts)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (folder / "qrels.tsv").write_text("\n".join(f"{number}\t{one.source_id}\t1" for number, one in enumerate(asked)))
    assert len(asked) > 20
    return folder


def measured(settings: Settings, folder: Path) -> EvaluationReport:
    return evaluate(settings, folder, hybrid=configuration(settings), progress=lambda _: None)


def test_hybrid_search_holds_up_under_a_model_whose_cosines_all_lie_above_0_7(
    folder: Path, server: OpenAIServer, tmp_path: Path, models_home: Path
) -> None:
    (tmp_path / "models").symlink_to(models_home)
    bundled = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    service = {"embedding_provider": "openai", "embedding_model": "lifted", "embedding_window": 256}
    service["openai_base_url"] = server.url
    plain = measured(bundled, folder)
    raised = measured(bundled.model_copy(update=service), folder)
    assert raised.dense.ndcg_10 == pytest.approx(plain.dense.ndcg_10, abs=MARGIN)
    assert raised.hybrid.ndcg_10 >= plain.hybrid.ndcg_10 - MARGIN
