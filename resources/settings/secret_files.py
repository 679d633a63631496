"""Secrets from files: `CONCORDANCE_POSTGRES_URL_FILE=/run/secrets/postgres-url` instead of `CONCORDANCE_POSTGRES_URL`.

Container platforms mount secrets as files, which unlike variables are not inherited and do not show in descriptions of a container.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import SecretStr
from pydantic_settings import BaseSettings

ENDING = "_FILE"


@cache
def secret_fields(kind: type[BaseSettings]) -> frozenset[str]:
    """Return the fields of a settings class that hold secrets."""
    fields = kind.model_fields.items()
    return frozenset(name for name, field in fields if SecretStr in (field.annotation, *get_args(field.annotation)))


def variables_of(kind: type[BaseSettings]) -> dict[str, str]:
    """Return the variable that names the file of each secret, by field."""
    prefix = kind.model_config.get("env_prefix", "")
    return {field: f"{prefix}{field}{ENDING}".upper() for field in secret_fields(kind)}


def read_files(kind: type[BaseSettings], *, with_dotenv: bool) -> dict[str, str]:
    """Return the secrets that files hold, by field, without the end of the last line. Raises `ValueError`."""
    given = _given(kind, with_dotenv=with_dotenv)
    found: dict[str, str] = {}
    for field, name in variables_of(kind).items():
        if not (path := given.get(name)):
            continue
        if given.get(name.removesuffix(ENDING)):
            raise ValueError(f"{name}: {name.removesuffix(ENDING)} is set too; set one of them")
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"{name}: {path} cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: {path} is not text in UTF-8") from error
        if not text.strip():
            raise ValueError(f"{name}: {path} is empty")
        found[field] = text
    return found


def dotenv(file: str = ".env") -> Mapping[str, str | None]:
    """Return the variables of a file such as `.env`, which need not exist. Raises `ValueError` if it cannot be read."""
    from dotenv import dotenv_values

    path = Path(file).absolute()
    try:
        return dotenv_values(path) if path.is_file() else {}
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): let this account read it") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8") from error


def _given(kind: type[BaseSettings], *, with_dotenv: bool) -> Mapping[str, str]:
    given: dict[str, str] = {}
    file = kind.model_config.get("env_file")
    if with_dotenv and isinstance(file, str):
        given |= {name.upper(): value for name, value in dotenv(file).items() if value}
    return given | {name.upper(): value for name, value in os.environ.items()}
