"""Run txtai's hybrid search on precomputed vectors and write the chunks found for each query, best first.

Run `python bench/quality_txtai.py FOLDER` in its own environment (`bench/requirements-quality.txt`); nothing of the product is
imported. The folder contains `texts.json`, `vectors.npy`, `queries.json` and `query_vectors.npy`; the result is `found.json` with
the numbers of the chunks. Only the vectors are given. The rest is txtai's default for `hybrid=True`: its normalised BM25 over its
SQLite term index and Faiss, weighted equally, with ten times `CHUNKS` candidates from each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from txtai import Embeddings

CHUNKS = 200
"""Chunks requested: enough for fifty documents."""


def main() -> None:
    """Index, search and write the results."""
    folder = Path(sys.argv[1])
    texts: list[str] = json.loads((folder / "texts.json").read_text())
    queries: list[str] = json.loads((folder / "queries.json").read_text())
    vectors = dict(zip(texts, np.load(folder / "vectors.npy"), strict=True))

    def transform(inputs: list[str]) -> np.ndarray:
        return np.stack([vectors[text] for text in inputs])

    embeddings = Embeddings(method="external", transform=transform, hybrid=True)
    embeddings.index(list(enumerate(texts)))
    vectors = dict(zip(queries, np.load(folder / "query_vectors.npy"), strict=True))
    found = [[int(number) for number, _ in hits] for hits in embeddings.batchsearch(queries, CHUNKS)]
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
