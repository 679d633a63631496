"""Changed settings since the running services were started, found by digests of those that they were started with.

Settings may be secret: only salted digests are kept, in a folder that no other account can enter.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from orchestration.supervision.run_state import StartedWith, read, supervisor
from resources.settings import FileRoot, Settings, variables


def started_with(settings: Settings, *, sample: bool, added: Sequence[FileRoot] = ()) -> StartedWith:
    """Return the record of these settings; roots in `added` do not count, since `up --sample` adds them to the user's own."""
    salt, roots = secrets.token_hex(16), [(root.name, root.url) for root in added]
    return StartedWith(salt=salt, digests=_digests(settings, salt, roots), sample=sample, added_roots=roots)


def changed_settings(settings: Settings) -> list[str]:
    """Return the variables that have changed, sorted: CONCORDANCE_FILE_ROOTS, or `CONCORDANCE_LIMITS__PARSE_SECONDS`.

    None if no supervisor is running.
    """
    started = read(settings).started
    if started is None or supervisor(settings) is None:
        return []
    now = _digests(settings, started.salt, started.added_roots)
    return sorted(variables.variable_of(name) for name, digest in now.items() if started.digests.get(name) != digest)


def apply(names: Sequence[str]) -> str:
    """Return what to do about settings that have changed."""
    what = f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} changed since Concordance was started"
    return f"{what}; apply that with: concordance restart"


def _digests(settings: Settings, salt: str, added: Collection[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, Any] = {name: getattr(settings, name) for name in type(settings).model_fields}
    values["file_roots"] = [root for root in settings.file_roots if (root.name, root.url) not in added]
    key = bytes.fromhex(salt)
    return {
        name: hashlib.blake2b(_plain(value).encode(), key=key, digest_size=16).hexdigest()
        for name, value in values.items()
    }


def _plain(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value.absolute())  # services may have been started from another folder
    if isinstance(value, tuple | list):
        return repr([_plain(one) for one in cast("list[object]", value)])
    return repr(value)
