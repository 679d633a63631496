"""Convert BERT weights (safetensors) to a CTranslate2 model folder, without torch.

The folder's name contains a hash of the source files, so that a changed model is converted again and an unchanged one
is not. Several processes may convert at once: each writes a folder of its own and the first rename wins.
"""

import atexit
import errno
import functools
import json
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from resources.core.errors import ConfigurationError
from resources.embedding.folder import SETTING, ModelFolder

FORMAT = 2
"""Raise it when the conversion changes, so that folders converted by an older version are ignored."""
_ABANDONED_SECONDS = 3600.0

Weights = Mapping[str, NDArray[np.float32]]

DAMAGED = (SafetensorError, LookupError, TypeError, ValueError, RuntimeError)
"""What libraries raise for truncated files, missing entries and matrices of the wrong shape."""


def damaged(path: Path, error: Exception) -> ConfigurationError:
    """Return the error of a model whose files cannot be used."""
    return ConfigurationError(
        f"the model in {path} is damaged ({type(error).__name__}: {error}).", "Download it again.", setting=SETTING
    )


def finite(name: str, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the weight. Raises `ValueError` if it has NaN or infinity."""
    if not np.isfinite(weight).all():
        raise ValueError(f"the weight {name} contains NaN or infinity")
    return weight


def converted(folder: ModelFolder, cache: Path, quantization: str) -> Path:
    """Return the CTranslate2 folder of this model, converting it on first use. `quantization` is `int8` or `float32`.

    Raises `ConfigurationError` if the model's files are damaged.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")
    target = cache / f"{slug}-{folder.fingerprint()}-{quantization}-{FORMAT}"
    if target.is_dir():
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(cache)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES}:
            raise
        cache = _temporary()
        target = cache / target.name
        if target.is_dir():
            return target
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=cache, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "model"
        made.mkdir()
        try:
            convert(folder, made, quantization)
        except DAMAGED as error:
            raise damaged(folder.path, error) from error
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # unless another process finished first: its folder is equivalent
                raise
    return target


@functools.cache
def _temporary() -> Path:
    """Return a folder of this process, for an installation whose HOME is read-only."""
    kept = tempfile.TemporaryDirectory(prefix="concordance-models-", ignore_cleanup_errors=True)
    atexit.register(kept.cleanup)
    return Path(kept.name)


def convert(folder: ModelFolder, target: Path, quantization: str) -> None:
    """Write the model in CTranslate2's format into the existing, empty folder `target`.

    Source: ctranslate2/converters/transformers.py, class BertLoader (4.8).
    """
    from ctranslate2.specs import common_spec, transformer_spec
    from safetensors import numpy as safetensors

    activations = {
        "gelu": common_spec.Activation.GELU,
        "gelu_new": common_spec.Activation.GELUTanh,
        "relu": common_spec.Activation.RELU,
    }
    library: Any = safetensors  # its types are incomplete
    config = folder.config
    if config["hidden_act"] not in activations:
        raise ConfigurationError(
            f"{folder.path} uses the activation {config['hidden_act']!r}; only {', '.join(activations)} are supported.",
            setting=SETTING,
        )
    weights = _unprefixed(library.load_file(folder.path / "model.safetensors"))
    encoder = transformer_spec.TransformerEncoderSpec(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        pre_norm=False,
        activation=activations[config["hidden_act"]],
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    spec = transformer_spec.TransformerEncoderModelSpec(encoder)
    try:
        _check_shapes(weights, config)
        _fill(encoder, weights)
    except KeyError as error:
        raise ConfigurationError(
            f"{folder.path}/model.safetensors has no weight called {error}; is it a BERT model?", setting=SETTING
        ) from None
    tokens = _vocabulary(folder.path, int(config["vocab_size"]))
    spec.register_vocabulary(tokens)
    runtime: Any = spec.config
    runtime.unk_token = "[UNK]"  # noqa: S105 - a vocabulary entry
    runtime.layer_norm_epsilon = config["layer_norm_eps"]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(target))


def _check_shapes(weights: Weights, config: Mapping[str, Any]) -> None:
    """Raise `ValueError` for matrices of other sizes than the configuration says: the engine would read beyond their ends."""
    hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    expected: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), hidden),
        "embeddings.position_embeddings.weight": (int(config["max_position_embeddings"]), hidden),
        "embeddings.LayerNorm.weight": (hidden,),
    }
    for index in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{index}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            expected |= {f"{prefix}.{part}.weight": (hidden, hidden), f"{prefix}.{part}.bias": (hidden,)}
        for part, rows, columns in (("intermediate.dense", inner, hidden), ("output.dense", hidden, inner)):
            expected |= {f"{prefix}.{part}.weight": (rows, columns), f"{prefix}.{part}.bias": (rows,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            expected |= {f"{prefix}.{part}.weight": (hidden,), f"{prefix}.{part}.bias": (hidden,)}
    for name, shape in expected.items():
        if weights[name].shape != shape:
            raise ValueError(f"the weight {name} has the shape {weights[name].shape} instead of {shape}")


def _fill(encoder: Any, weights: Weights) -> None:
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = weights["embeddings.word_embeddings.weight"]
    encoder.embeddings[1].weight = weights["embeddings.token_type_embeddings.weight"]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"]
    _norm(encoder.layernorm_embedding, weights, "embeddings.LayerNorm")
    for index, layer in enumerate(encoder.layer):
        prefix = f"encoder.layer.{index}"
        parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        fused = layer.self_attention.linear[0]
        fused.weight = np.concatenate([weights[f"{part}.weight"] for part in parts])
        fused.bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        _linear(layer.self_attention.linear[1], weights, f"{prefix}.attention.output.dense")
        _norm(layer.self_attention.layer_norm, weights, f"{prefix}.attention.output.LayerNorm")
        _linear(layer.ffn.linear_0, weights, f"{prefix}.intermediate.dense")
        _linear(layer.ffn.linear_1, weights, f"{prefix}.output.dense")
        _norm(layer.ffn.layer_norm, weights, f"{prefix}.output.LayerNorm")


def _linear(spec: Any, weights: Weights, name: str) -> None:
    spec.weight, spec.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _unprefixed(weights: Weights) -> Weights:
    """Remove the `bert.` prefix that folders saved with a head have on each name."""
    return {
        name.removeprefix("bert."): finite(name, np.asarray(value, dtype=np.float32)) for name, value in weights.items()
    }


def _vocabulary(path: Path, size: int) -> list[str]:
    described = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    by_id = {int(index): token for token, index in described["model"]["vocab"].items()}
    by_id |= {int(added["id"]): added["content"] for added in described.get("added_tokens", [])}
    return [by_id.get(index, f"<extra_id_{index}>") for index in range(size)]


def _clear_abandoned(cache: Path) -> None:
    """Remove the leftovers of a process that was killed while converting."""
    for scratch in cache.glob(".convert-*"):
        if time.time() - scratch.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(scratch, ignore_errors=True)
