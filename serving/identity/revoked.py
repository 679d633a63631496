"""The deny-list of tokens in HOME, which applies even while Postgres is down.

Postgres has the same list; requests read it with the directory. A token is on disk before Postgres is asked, so a revocation
takes effect for all serving processes of a HOME whatever happens to Postgres.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from resources.core.errors import RetryLaterError
from resources.logging import logger

FOLDER = "revoked"
"""Below HOME."""

log = logger("serving")
_decoder = msgspec.json.Decoder(dict[str, float])


class RevokedTokens:
    """Ids of revoked tokens with their expiry (Unix time), in a JSON file that only the owner may read."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tokens.json"
        self._read: tuple[tuple[int, int], Mapping[str, float]] = ((0, 0), {})

    def add(self, token_id: str, expires: float) -> None:
        """Store durably that a token is revoked, and drop tokens that have expired. Blocking. Raises `RetryLaterError`."""
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._file.with_suffix(".lock"), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                now = time.time()
                kept = {one: until for one, until in self.current().items() if until >= now}
                self._write(kept | {token_id: max(expires, kept.get(token_id, 0.0))})
            finally:
                os.close(lock)
        except OSError as error:
            log.error("revoked_token_not_written", error=str(error))
            raise RetryLaterError(
                f"The token was not revoked: {self._file} cannot be written ({error.strerror}). Free space or fix its rights, then try "
                "again."
            ) from error

    def _write(self, content: Mapping[str, float]) -> None:
        draft = self._file.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(content))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)

    def current(self) -> Mapping[str, float]:
        """Return the revoked tokens, read again if the file has changed. A damaged file raises `RetryLaterError`."""
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return {}
        version = (stat.st_ino, stat.st_mtime_ns)
        if version != self._read[0]:
            try:
                self._read = (version, _decoder.decode(self._file.read_bytes()))
            except msgspec.MsgspecError as error:
                log.error("revoked_tokens_damaged", file=str(self._file), error=str(error))
                raise RetryLaterError(
                    "The list of revoked tokens is damaged, so no token can be accepted. An administrator can restore it."
                ) from error
        return self._read[1]

    def __contains__(self, token_id: str) -> bool:
        return token_id in self.current()
