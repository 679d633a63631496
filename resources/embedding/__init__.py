"""Embedders, chosen by the settings and cached per process.

`embedder` returns a thread-safe `Embedder`, `tokenizer` the tokenizer that counts chunks. Heavy libraries are imported
when the first embedder is created. Nothing is stored here, and what is embedded is decided by callers.
"""

import os
from collections.abc import Mapping
from functools import cache
from glob import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from resources.core.errors import ConfigurationError, InvalidRequestError
from resources.core.paths import is_folder
from resources.core.ports import Embedder
from resources.embedding.folder import BUNDLED_NAMES, read_folder
from resources.embedding.prompts import NO_PROMPTS, has_prompts
from resources.embedding.wordpieces import WordPieces
from resources.settings import Settings
from resources.settings.limits import Prompts


class ModelChoice(NamedTuple):
    """An embedding model as recorded with a collection: enough to load it again, without secrets and service addresses."""

    provider: Literal["local", "openai"]
    source: str | None
    """Absolute path of a model's folder, or its name at the service; None: the provider's default."""
    dimensions: int | None
    """Requested dimensions, for models with a choice."""
    window: int | None
    prompts: Prompts | None = None
    """Prompts that are set; None: those of the model's folder."""

    def settings(self, settings: Settings) -> Settings:
        """Return settings that select this model. A configured price is kept only for the model it was set for."""
        from resources.embedding.openai_compatible import KNOWN

        known = self.provider == "local" or self.source in KNOWN
        other = (self.provider, self.source) != choice(settings)[:2]
        return settings.model_copy(
            update={
                "embedding_provider": self.provider,
                "embedding_model": self.source,
                "embedding_dimensions": self.dimensions,
                "embedding_window": self.window,
                "embedding_prompts": self.prompts,
                "embedding_price": None if known and other else settings.embedding_price,
            }
        )


def choice(settings: Settings) -> ModelChoice:
    """Return the model that the settings select."""
    source = settings.embedding_model
    if settings.embedding_provider == "local" and source is not None:
        source = None if source in BUNDLED_NAMES else str(Path(source).expanduser().resolve())
    return ModelChoice(
        settings.embedding_provider,
        source,
        settings.embedding_dimensions,
        settings.embedding_window,
        settings.embedding_prompts,
    )


def choose(settings: Settings, model: str, dimensions: int | None) -> ModelChoice:
    """Return the model that the user named: a folder, the bundled model's name, or a name at the OpenAI-compatible service.

    Raises `InvalidRequestError` if it is none of these.
    """
    own = choice(settings)
    folder = Path(model).expanduser()
    if model in BUNDLED_NAMES or is_folder(folder):
        source = None if model in BUNDLED_NAMES else str(folder.resolve())
        provider: Literal["local", "openai"] = "local"
    elif model.startswith((".", "/", "~")):
        raise InvalidRequestError(f"--model: there is no folder {folder}.")
    elif settings.openai_api_key is None and "api.openai.com" in settings.openai_base_url:
        raise InvalidRequestError(
            f"--model: {model!r} is not a folder, and no service is configured that could run it: set CONCORDANCE_OPENAI_API_KEY or "
            "CONCORDANCE_OPENAI_BASE_URL, or give the path of a model's folder."
        )
    else:
        source, provider = model, "openai"
    if (provider, source) == own[:2]:
        return own._replace(dimensions=dimensions or own.dimensions)
    return ModelChoice(provider, source, dimensions, None, own.prompts)


def recorded(settings: Settings, row: Mapping[str, Any]) -> ModelChoice | None:
    """Return the model recorded in a row of `index_collections`; None for a collection older than that record.

    Where its folder is missing, as after a restore to another HOME, the same model is looked for among those that were added, and in the
    settings.
    """
    if row["provider"] is None:
        return None
    if row["model_prompts"] is not None:
        prompts = Prompts.model_validate_json(row["model_prompts"])
    else:
        # older versions did not read prompts from folders
        prompts = None if has_prompts(row["model"]) else NO_PROMPTS
    return ModelChoice(row["provider"], _source(settings, row), row["model_dimensions"], row["model_window"], prompts)


def _source(settings: Settings, row: Mapping[str, Any]) -> str | None:
    source: str | None = row["model_source"]
    if row["provider"] != "local" or source is None or is_folder(Path(source)):
        return source
    name = Path(source).name
    folders = [str(folder.resolve()) for folder in (settings.home / "models" / "added").glob(f"*/{escape(name)}")]
    if settings.embedding_provider == "local" and (own := choice(settings).source) and Path(own).name == name:
        folders.append(own)
    return next((folder for folder in folders if row["model"].startswith(_versioned_name(folder))), source)


@cache
def _versioned_name(folder: str) -> str:
    return read_folder(folder).versioned_name


def embedder_of(settings: Settings, row: Mapping[str, Any]) -> Embedder:
    """Return the embedder of a collection, from its row of `index_collections`.

    Raises `ConfigurationError` if that model is gone or has changed since: its vectors would not match the index.
    """
    chosen = recorded(settings, row)
    if chosen is not None and chosen.provider == "local" and chosen.source and not is_folder(Path(chosen.source)):
        raise ConfigurationError(
            f"The index was built with the embedding model {row['model']}, which is no longer in {chosen.source}. Add it again: "
            "concordance model add M"
        )
    found = embedder(settings if chosen is None else chosen.settings(settings))
    if found.model != row["model"]:
        where = "the settings name" if chosen is None else f"{chosen.source or 'the bundled folder'} holds"
        raise ConfigurationError(
            f"The index was built with the embedding model {row['model']}, but {where} {found.model}. Restore that model, "
            "then change it with: concordance reindex --model M"
        )
    return found


def check_dimensions(model: str, found: int, indexed: int) -> None:
    """Raise `ConfigurationError` if a model's vectors have another length than those of the index."""
    if found != indexed:
        raise ConfigurationError(
            f"The embedding model {model} now returns vectors of {found} numbers, but the index has {indexed}: it is another model under "
            "the same name. Restore it (CONCORDANCE_EMBEDDING_MODEL, CONCORDANCE_OPENAI_BASE_URL, CONCORDANCE_EMBEDDING_DIMENSIONS), or "
            "change models with: concordance reindex --model M"
        )


def embedder(settings: Settings) -> Embedder:
    """Return this process's embedder for these settings. Raises `ConfigurationError` with what to do."""
    key = settings.openai_api_key
    return _embedder(
        os.getpid(),  # a forked child must not use its parent's embedder: its threads do not survive the fork
        settings.embedding_provider,
        settings.embedding_model,
        settings.embedding_dimensions,
        settings.embedding_window,
        settings.embedding_batch,
        settings.embedding_price,
        settings.embedding_prompts,
        settings.openai_base_url,
        key.get_secret_value() if key else None,
        str((settings.home / "models").resolve()),  # two homes with the same models folder share one embedder
    )


def tokenizer(settings: Settings | None = None) -> WordPieces:
    """Return the tokenizer that counts chunks: the configured local model's, otherwise the bundled model's."""
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
    prompts: Prompts | None,
    base_url: str,
    api_key: str | None,
    models: str,
) -> Embedder:
    if provider == "openai":
        from resources.embedding.openai_compatible import OpenAICompatible

        return OpenAICompatible(
            base_url,
            api_key,
            model=model,
            dimensions=dimensions,
            window=window,
            batch=batch,
            price=price,
            prompts=prompts or NO_PROMPTS,
        )
    from resources.embedding.local import LocalEmbedder

    return LocalEmbedder(
        read_folder(model), Path(models), dimensions=dimensions, window=window, price=price, prompts=prompts
    )
