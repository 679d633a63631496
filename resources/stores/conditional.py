"""Check that an object store keeps two writers from creating the same object: commits to the lake's tables depend on it."""

from __future__ import annotations

from resources.core.errors import AbortSyncError
from resources.stores.blobs import LAKE_URL, mapped_errors, open_store

OBJECT = "tables/.conditional-writes"
"""Stays in the lake, so that later checks need one request."""


def check_conditional_writes(url: str) -> None:
    """Raise `AbortSyncError` if the store replaces an object that is only to be created, as stores do that ignore `If-None-Match`."""
    from obstore.exceptions import AlreadyExistsError

    store = open_store(url)
    with mapped_errors():
        for _ in range(2):  # the first time, it creates the object
            try:
                store.put(OBJECT, b"", mode="create", use_multipart=False)
            except AlreadyExistsError:
                return
    raise AbortSyncError(
        f"The object store of {LAKE_URL} ignores conditional writes (If-None-Match: *), without which two syncs that write at once lose "
        "rows. Nothing was written. Use a store, or a version of it, that supports them."
    )
