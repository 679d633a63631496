"""A cross-encoder on the CPU that scores how relevant passages are to a query, on the same BERT engine as the embedder.

Supports folders of sentence-transformers cross-encoders (such as ms-marco-MiniLM-L6-v2): a BERT with a pooler and one output.
Nothing is downloaded here: a hub name refers to what `hf download` has put into this machine's cache.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resources.core.errors import ConfigurationError
from resources.core.paths import is_folder
from resources.embedding.convert import DAMAGED, converted, finite
from resources.embedding.folder import ModelFolder, read_folder
from resources.embedding.wordpieces import WordPieces

BATCH_PAIRS = 8
QUERY_TOKENS = 64
"""A longer query is truncated to this; the passage gets the rest of the window."""
_VARIABLE = "CONCORDANCE_SEARCH__RERANK_MODEL"


class CrossEncoder:
    """One model in this process. Thread-safe: CTranslate2 queues the passes and releases the GIL."""

    def __init__(self, model: str, cache: Path, *, quantization: str = "int8") -> None:
        import ctranslate2

        try:
            folder = read_folder(str(folder_of(model)))
            self._pieces = WordPieces(folder.path, lowercase=folder.lowercase)
            self._pooler, self._head = _heads(folder)
            path = converted(folder, cache, quantization)
            self._encoder = ctranslate2.Encoder(
                str(path),
                compute_type=quantization,
                inter_threads=min(8, os.cpu_count() or 1),
                intra_threads=1,
            )
        except (OSError, *DAMAGED) as error:
            raise ConfigurationError(
                f"{model} cannot be loaded ({error}).", "Download it again.", setting=_VARIABLE
            ) from error
        except ConfigurationError as error:
            raise ConfigurationError(error.what, error.remedy, setting=_VARIABLE) from error
        self.model = folder.name
        self._window = folder.window

    def score(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Return the relevance of each passage, in order, as the sigmoid of the model's output: shape (n,), 0..1.

        Raises `ConfigurationError` if the model computes no numbers.
        """
        if not passages:
            return np.zeros(0, dtype=np.float32)
        asked, *texts = self._pieces.ids([query, *passages])
        pairs = [self._pair(asked[:QUERY_TOKENS], text) for text in texts]
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index][0]))  # so that batches need little padding
        scores = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(order), BATCH_PAIRS):
            part = order[start : start + BATCH_PAIRS]
            scores[part] = self._forward([pairs[index] for index in part])
        if not np.isfinite(scores).all():
            raise ConfigurationError(
                f"{self.model} computes NaN for some passages.", "Download it again.", setting=_VARIABLE
            )
        return scores

    def _pair(self, query: list[int], text: list[int]) -> tuple[list[int], list[int]]:
        """Return token ids and segment ids of `[CLS] query [SEP] passage [SEP]`."""
        first = [*self._pieces.prefix, *query, *self._pieces.suffix]
        second = [*text[: self._window - len(first) - len(self._pieces.suffix)], *self._pieces.suffix]
        return [*first, *second], [0] * len(first) + [1] * len(second)

    def _forward(self, pairs: list[tuple[list[int], list[int]]]) -> NDArray[np.float32]:
        width = max(len(ids) for ids, _ in pairs)
        segments = [[*types, *[0] * (width - len(types))] for _, types in pairs]
        output = self._encoder.forward_batch([ids for ids, _ in pairs], token_type_ids=segments)
        first: NDArray[np.float32] = np.array(output.last_hidden_state)[:, 0]
        weight, bias = self._pooler
        pooled = np.tanh(first @ weight.T + bias)
        weight, bias = self._head
        logits: NDArray[np.float32] = (pooled @ weight.T + bias)[:, 0]
        return (1 / (1 + np.exp(-logits))).astype(np.float32)


def folder_of(model: str) -> Path:
    """Return the folder of a model: as given, or in the cache of the hub's own tool. Raises `ConfigurationError`."""
    path = Path(model).expanduser()
    if is_folder(path) or model.startswith((".", "/", "~")) or model.count("/") != 1:
        return path
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    library: Any = huggingface_hub  # its types are incomplete
    try:
        return Path(library.snapshot_download(model, local_files_only=True))
    except LocalEntryNotFoundError:
        raise ConfigurationError(
            f"{model} is not on this machine, and nothing is downloaded at run time.",
            f"Download it once with: hf download {model}",
            setting=_VARIABLE,
        ) from None


Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


def _heads(folder: ModelFolder) -> tuple[Layer, Layer]:
    """Return weight and bias of the pooler and of the output layer. Raises `ConfigurationError` for other kinds of models."""
    import safetensors

    library: Any = safetensors  # a native module without types
    with library.safe_open(folder.path / "model.safetensors", framework="numpy") as file:
        names = {str(name).removeprefix("bert."): str(name) for name in file.keys()}  # noqa: SIM118 - no mapping

        def layer(name: str) -> Layer:
            try:
                weight, bias = (file.get_tensor(names[f"{name}.{part}"]) for part in ("weight", "bias"))
            except KeyError:
                raise ConfigurationError(
                    f"{folder.path} has no {name}: it is not a cross-encoder.",
                    "Choose one such as cross-encoder/ms-marco-MiniLM-L6-v2.",
                    setting=_VARIABLE,
                ) from None
            return finite(name, np.asarray(weight, np.float32)), finite(name, np.asarray(bias, np.float32))

        pooler, head = layer("pooler.dense"), layer("classifier")
    if head[0].shape[0] != 1:
        raise ConfigurationError(
            f"{folder.path} has {head[0].shape[0]} outputs; a reranker has one.", setting=_VARIABLE
        )
    hidden = folder.dimensions
    if (pooler[0].shape, pooler[1].shape, head[0].shape) != ((hidden, hidden), (hidden,), (1, hidden)):
        raise ValueError(f"the last layers do not fit {hidden} numbers")
    return pooler, head
