"""Compare retrieval quality with txtai on test collections: nDCG@10 of both and their paired comparison.

`python -m bench.quality FOLDER...`, with folders in BEIR layout as for `concordance eval`. A folder is indexed by the production
stages into a separate vector server and searched through the production retriever, with the settings of this installation. txtai, in
its own environment, gets the same chunks and vectors and ranks them with its defaults. Both rank documents by their best chunk. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from assets.stages.profiles import resolve
from orchestration.evaluation.collection import (
    EvaluationTarget,
    Indexed,
    JudgedCollection,
    index_collection,
    read_collection,
)
from orchestration.evaluation.measures import Comparison, QueryScores, compare, score, summarise
from orchestration.evaluation.quality import Searcher, configuration, vector_server
from resources.core.ports import Embedder
from resources.embedding import embedder, tokenizer
from resources.logging import configure
from resources.settings import Settings, load
from resources.stores import qdrant
from resources.stores.lake import Lake
from resources.stores.qdrant_search import VectorSearch
from serving.http.database import Database
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.engines import Engines

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-quality" / "bin" / "python"
HEADER = f"{'':14}{'queries':>8}{'Concordance':>13}{'txtai':>8}{'difference':>12}{'95 % interval':>20}{'p':>8}{'better':>8}{'worse':>7}"
PAGE = 256

Scores = Mapping[str, QueryScores]


class Line(NamedTuple):
    """One row of the table."""

    name: str
    queries: int
    ours: float
    txtai: float
    comparison: Comparison


def main() -> None:
    """Run the comparison and print the figures."""
    configure("warning", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    settings = load()
    every: tuple[dict[str, QueryScores], dict[str, QueryScores]] = ({}, {})
    lines: list[Line] = []
    for folder in parser.parse_args().folders:
        collection = read_collection(folder)
        print(f"{collection.name}: {len(collection.documents)} documents …", flush=True)
        pair = _both(settings, collection)
        lines.append(_line(collection.name, *pair))
        for kept, found in zip(every, pair, strict=True):
            kept.update({f"{collection.name}/{query}": one for query, one in found.items()})
    lines.append(_line("all queries", *every))
    print(HEADER)
    for line in lines:
        found = line.comparison
        low, high = found.ci95
        print(
            f"{line.name:14}{line.queries:8}{line.ours:13.4f}{line.txtai:8.4f}{found.difference:+12.4f}"
            f"{f'{low:+.4f} .. {high:+.4f}':>20}{found.p:8.4f}{found.better:8}{found.worse:7}"
        )
    means = {name: round(float(np.mean([getattr(line, name) for line in lines[:-1]])), 4) for name in ("ours", "txtai")}
    print(f"mean of the collections: {means['ours']:.4f}, txtai {means['txtai']:.4f}")
    print(json.dumps({"mean": means, "lines": msgspec.to_builtins([line._asdict() for line in lines])}))


def _line(name: str, ours: Scores, txtai: Scores) -> Line:
    return Line(name, len(ours), summarise(ours).ndcg_10, summarise(txtai).ndcg_10, compare(ours, txtai))


def _both(settings: Settings, collection: JudgedCollection) -> tuple[dict[str, QueryScores], dict[str, QueryScores]]:
    model = embedder(settings)
    with vector_server(settings) as own:
        target = EvaluationTarget(
            qdrant=qdrant.client(own),
            lake=Lake((settings.home / "eval" / "lake").as_uri()),
            embedder=model,
            tokenizer=tokenizer(settings),
            profile=resolve(settings.chunk_profile, model.window),
        )
        indexed = index_collection(collection, target, lambda text: print(text, flush=True))
        ours = asyncio.run(_rankings(own, collection, indexed, model))
        txtai = _txtai(target, collection, indexed)
        target.qdrant.close()
    return score(collection.judgements, ours), score(collection.judgements, txtai)


async def _rankings(
    settings: Settings, collection: JudgedCollection, indexed: Indexed, model: Embedder
) -> dict[str, list[str]]:
    """Return the product's rankings."""
    queries = QueryEmbedder(lambda: model)
    await queries.start()
    searches = VectorSearch(settings)
    # never opened: Postgres answers only while the vector server is down
    searcher = Searcher(
        settings, indexed, Engines(searches, Database(settings.postgres_dsn, prepare_threshold=5), queries), queries
    )
    try:
        wanted = configuration(settings)
        return {query.id: (await searcher.search(query.text, wanted))[0] for query in collection.queries}
    finally:
        await searches.close()


def _txtai(target: EvaluationTarget, collection: JudgedCollection, indexed: Indexed) -> dict[str, list[str]]:
    """Return txtai's rankings over the same chunks: documents in the order of their best chunk."""
    chunks = list(indexed.payloads)
    queries = [query.text for query in collection.queries]
    with tempfile.TemporaryDirectory(prefix="concordance-quality-") as name:
        folder = Path(name)
        (folder / "texts.json").write_text(json.dumps([indexed.payloads[chunk]["chunk_text"] for chunk in chunks]))
        (folder / "queries.json").write_text(json.dumps(queries))
        np.save(folder / "vectors.npy", _vectors(target, chunks))
        np.save(folder / "query_vectors.npy", np.stack([target.embedder.embed_query(text) for text in queries]))
        subprocess.run([str(PYTHON), str(ROOT / "bench" / "quality_txtai.py"), name], check=True)
        found: list[list[int]] = json.loads((folder / "found.json").read_text())
    return {
        query.id: [indexed.ids[indexed.payloads[chunks[number]]["doc_id"]] for number in numbers]
        for query, numbers in zip(collection.queries, found, strict=True)
    }


def _vectors(target: EvaluationTarget, chunks: Sequence[str]) -> np.ndarray:
    """Return the vectors of the chunks from the index, in order."""
    rows: dict[str, list[float]] = {}
    for start in range(0, len(chunks), PAGE):
        wanted = list(chunks[start : start + PAGE])
        for record in target.qdrant.retrieve(qdrant.ALIAS, wanted, with_payload=False, with_vectors=[qdrant.DENSE]):
            rows[str(record.id)] = record.vector[qdrant.DENSE]  # type: ignore[index,assignment]
    return np.array([rows[chunk] for chunk in chunks], dtype=np.float32)


if __name__ == "__main__":
    main()
