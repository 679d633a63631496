"""Texts → vectors, by the provider that the settings name; one embedder a process.

Enter settings, leave a thread-safe `Embedder` and the tokenizer that chunks are counted by. Heavy libraries are
imported when the first embedder is made, not before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resources import ports
from resources.embedding.folder import read_folder
from resources.embedding.wordpieces import WordPieces
from resources.settings import Settings


class Embedder(ports.Embedder, Protocol):
    """What both providers offer over the port: queries, and what the tokens cost."""

    @property
    def price_per_million(self) -> float | None:
        """US dollars for a million tokens; None when it isn't known (set CONCORDANCE_EMBEDDING_PRICE)."""
        ...

    def embed_counted(self, texts: Sequence[str]) -> tuple[ports.Vectors, int]:
        """Return one row a text, in order, and the tokens that were used (billed, if the service says so)."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one query, shape (dimensions,)."""
        ...


def embedder(settings: Settings) -> Embedder:
    """Return this process's embedder for these settings. Raises `ConfigurationError` with what to do."""
    key = settings.openai_api_key
    return _embedder(
        os.getpid(),  # a forked child must not use its parent's: the threads behind it are not there
        settings.embedding_provider,
        settings.embedding_model,
        settings.embedding_dimensions,
        settings.embedding_window,
        settings.embedding_batch,
        settings.embedding_price,
        settings.openai_base_url,
        key.get_secret_value() if key else None,
        str(settings.home / "models"),
    )


def tokenizer(settings: Settings | None = None) -> WordPieces:
    """Return the tokenizer that counts chunks: the configured local model's, the bundled one's otherwise."""
    local = settings is not None and settings.embedding_provider == "local"
    return _tokenizer(settings.embedding_model if settings is not None and local else None)


@cache
def _tokenizer(model: str | None) -> WordPieces:
    folder = read_folder(model)
    return WordPieces(folder.path, lowercase=folder.lowercase)


@cache
def _embedder(
    _process: int,
    provider: str,
    model: str | None,
    dimensions: int | None,
    window: int | None,
    batch: int,
    price: float | None,
    base_url: str,
    api_key: str | None,
    models: str,
) -> Embedder:
    if provider == "openai":
        from resources.embedding.openai_compatible import OpenAICompatible

        return OpenAICompatible(
            base_url, api_key, model=model, dimensions=dimensions, window=window, batch=batch, price=price
        )
    from pathlib import Path

    from resources.embedding.local import LocalEmbedder

    return LocalEmbedder(read_folder(model), Path(models), dimensions=dimensions, window=window, price=price)
