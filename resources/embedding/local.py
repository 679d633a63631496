"""A sentence-transformers BERT model on the CPU, without torch or a network.

No text is truncated: one longer than the window is embedded in windows, and its vector is their length-weighted mean.
Chunks fit the window by construction, so this only happens to long queries and to chunks counted by another model's
tokenizer. Vectors are L2-normalised.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resources.core.cores import cores
from resources.core.errors import ConfigurationError
from resources.core.ports import Vectors
from resources.embedding.convert import converted
from resources.embedding.folder import ModelFolder
from resources.embedding.prompts import suffix
from resources.embedding.wordpieces import WordPieces
from resources.settings.limits import Prompts

BATCH_TOKENS = 1024
"""Tokens of one forward pass, padding included. Measured on 2 cores: 512 to 1,536 give 77 chunks/s, 4,096 gives 51."""


class LocalEmbedder:
    """One model in this process. Thread-safe: CTranslate2 queues the passes and releases the GIL."""

    def __init__(
        self,
        folder: ModelFolder,
        cache: Path,
        *,
        quantization: str = "int8",
        dimensions: int | None = None,
        window: int | None = None,
        price: float | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        import ctranslate2

        if dimensions not in (None, folder.dimensions):
            raise ConfigurationError(
                f"CONCORDANCE_EMBEDDING_DIMENSIONS is {dimensions}, but {folder.name} produces vectors of "
                f"{folder.dimensions}: unset it."
            )
        longest = int(folder.config["max_position_embeddings"])
        if window is not None and window > longest:
            raise ConfigurationError(
                f"CONCORDANCE_LIMITS__EMBEDDING_WINDOW is {window}, but {folder.name} has {longest} positions."
            )
        self._pieces = WordPieces(folder.path, lowercase=folder.lowercase)
        self._cls = folder.pooling == "cls"
        prompts = folder.prompts if prompts is None else prompts
        self._query, self._passage = self._pieces.ids([prompts.query, prompts.passage])
        self.model = folder.versioned_name + suffix(prompts)
        self.dimensions = folder.dimensions
        self.window = window or folder.window
        self.price_per_million = price or 0.0
        self._workers = min(8, cores())
        path = converted(folder, cache, quantization)
        try:
            self._encoder = ctranslate2.Encoder(
                str(path), compute_type=quantization, inter_threads=self._workers, intra_threads=1
            )
        except RuntimeError as error:
            raise ConfigurationError(
                f"The converted model in {path} cannot be loaded ({error}). Delete that folder and restart: it "
                "is converted again."
            ) from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order."""
        return self.embed_counted(texts)[0]

    def embed_counted(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Return one row per text, in order, and the number of tokens processed."""
        return self._embedded(texts, self._passage)

    def pieces(self, text: str) -> int:
        """Return the number of pieces that the model reads a text in."""
        return self._pieces.count(text)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one text, shape (dimensions,)."""
        return self._embedded([text], self._query)[0][0]

    def _embedded(self, texts: Sequence[str], prompt: list[int]) -> tuple[Vectors, int]:
        """Embed texts in windows that each begin with the prompt."""
        ids = self._pieces.ids(texts)
        room = max(1, self.window - len(self._pieces.prefix) - len(self._pieces.suffix) - len(prompt))
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, tokens in enumerate(ids):
            for start in range(0, max(1, len(tokens)), room):
                windows.append([*prompt, *tokens[start : start + room]])
                owners.append(owner)
        pooled = self._pooled(windows)
        vectors = np.zeros((len(ids), self.dimensions), dtype=np.float32)
        lengths = (max(1, len(window) - len(prompt)) for window in windows)
        weights = np.fromiter(lengths, dtype=np.float32, count=len(windows))
        np.add.at(vectors, owners, _normalized(pooled) * weights[:, None])
        return _normalized(vectors), sum(map(len, ids))

    def _pooled(self, windows: list[list[int]]) -> Vectors:
        """Run the model over windows sorted by length, so that batches need little padding."""
        order = sorted(range(len(windows)), key=lambda index: len(windows[index]), reverse=True)
        batches: list[list[int]] = []
        for index in order:
            width = len(windows[batches[-1][0]]) + 2 if batches else 0
            if batches and (len(batches[-1]) + 1) * width <= BATCH_TOKENS:
                batches[-1].append(index)
            else:
                batches.append([index])
        out = np.empty((len(windows), self.dimensions), dtype=np.float32)

        def run(batch: list[int]) -> None:
            out[batch] = self._forward([windows[index] for index in batch])

        if len(batches) == 1:
            run(batches[0])
        elif batches:
            with ThreadPoolExecutor(self._workers) as pool:
                list(pool.map(run, batches))
        return out

    def _forward(self, windows: list[list[int]]) -> Vectors:
        pieces = self._pieces
        inputs = [[*pieces.prefix, *window, *pieces.suffix] for window in windows]
        hidden: NDArray[np.float32] = np.array(self._encoder.forward_batch(inputs).last_hidden_state)
        if self._cls:
            return hidden[:, 0]
        lengths = np.fromiter(map(len, inputs), dtype=np.int64, count=len(inputs))
        positions = np.arange(int(hidden.shape[1]))
        within: NDArray[np.bool_] = np.less(positions, lengths[:, None])
        mask = within.astype(np.float32) / lengths[:, None].astype(np.float32)
        return np.matmul(mask[:, None, :], hidden)[:, 0]


def _normalized(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
