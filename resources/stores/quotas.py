"""Quotas: how many uploads and bytes one user may keep, and how many may wait to be indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from resources.core.errors import QuotaExceededError, TooManyWaitingError
from resources.settings import Settings
from sql.sources import UploadChanges

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

RETRY_AFTER_SECONDS = 60


class Quota(NamedTuple):
    files: int
    size: int
    """Bytes of all uploads together."""
    waiting: int
    erase_after: str

    def check(self, conn: Connection, *, owner: str, source_id: str, size: int) -> None:
        """Raise `QuotaExceededError` or `TooManyWaitingError` if this upload would exceed a limit.

        The caller must hold the lock of uploads for the result to stay valid until the transaction ends.
        """
        held = UploadChanges(conn).usage(owner=owner, source_id=source_id)
        free = (
            f"Delete some that you no longer need, or ask an administrator to raise it. Deleted uploads count until they are erased, "
            f"{self.erase_after} later."
        )
        if held.files + 1 > self.files:
            raise QuotaExceededError(
                f"You have {held.files} uploads and the limit is {self.files} (CONCORDANCE_LIMITS__UPLOAD_QUOTA_FILES). {free}"
            )
        if held.bytes + size > self.size:
            raise QuotaExceededError(
                f"You have {_megabytes(held.bytes)} of uploads; with this one of {_megabytes(size)} the limit of "
                f"{_megabytes(self.size)} (CONCORDANCE_LIMITS__UPLOAD_QUOTA_BYTES) would be exceeded. {free}"
            )
        if held.waiting + 1 > self.waiting:
            raise TooManyWaitingError(
                f"{held.waiting} of your uploads are waiting to be indexed and the limit is {self.waiting} "
                "(CONCORDANCE_LIMITS__UPLOAD_QUOTA_WAITING). Try again when some of them have been indexed.",
                RETRY_AFTER_SECONDS,
            )


def quota_of(settings: Settings, *, admin: bool) -> Quota | None:
    """Return the quota in the settings; None for administrators, who have no limits."""
    if admin:
        return None
    return Quota(
        settings.upload_quota_files,
        settings.upload_quota_bytes,
        settings.upload_quota_waiting,
        settings.erase_after,
    )


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"
