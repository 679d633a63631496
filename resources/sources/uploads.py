"""The source `upload`: files that users upload, recorded in Postgres (`resources.stores.uploads`) with their bytes in the blob store.

Partitions are the days of the first upload. A document is one owner's copy of one content: the same bytes from
the same user are the same document, from another user a different one with permissions of its own. Documents of the source
`push` are recorded there too, see `resources.sources.push`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import psycopg

from resources.core.domain import Batch, Item, Refusal, SourceName
from resources.core.errors import FailedDocumentError
from resources.core.ports import Source
from resources.settings import Settings
from resources.sources.spec import Capabilities, SourceSpec, WaitingWork
from resources.sources.tree import PIECE
from resources.stores.blobs import Blobs
from resources.stores.uploads import readers_of
from sql import sources as statements

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

PAGE = 1000


def pending(conn: Connection, source: SourceName = SourceName.UPLOAD) -> bool:
    """Return True if an upload changed since the last sync of its partition."""
    return statements.UploadChanges(conn).any_pending(source=source)


class Uploads(Source):
    """`resources.core.ports.Source` over the table `uploads`."""

    def __init__(self, settings: Settings, *, source: SourceName = SourceName.UPLOAD) -> None:
        self._settings = settings
        self._name = source
        self._blobs = Blobs(settings.lake_address)

    @property
    def name(self) -> SourceName:
        return self._name

    def partitions(self) -> list[str]:
        """Return the days (UTC, `2025-11-10`) with first uploads, or the names of pushed sources, sorted."""
        with self._connect() as conn:
            return statements.UploadChanges(conn).partitions(source=self._name)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield a partition's uploads that changed after `cursor`, in their current state, and tombstones of removed ones.

        Always yields a batch, even if nothing changed: it shows that the partition's permissions are up to date.
        """
        after = int(cursor or 0)
        with self._connect() as conn:
            while True:
                rows = self._page(conn, partition, after)
                after = rows[-1].change if rows else after
                kept = [row for row in rows if isinstance(row, statements.Upload)]
                yield Batch(
                    partition=partition,
                    seen=[self._item(row) for row in kept if row.deleted_at is None],
                    refused=[self._refusal(row, partition) for row in rows if isinstance(row, statements.UploadName)],
                    deleted=[row.source_id for row in kept if row.deleted_at is not None],
                    cursor=str(after),
                    listing="delta",
                )
                if len(rows) < PAGE:
                    return

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield the bytes from the blob store. Raises `FailedDocumentError` if they are missing."""
        local = self._blobs.local_path(item.locator)
        if local is None:
            yield self._blobs.read(item.locator)
            return
        try:
            with local.open("rb") as file:
                while piece := file.read(PIECE):
                    yield piece
        except FileNotFoundError as error:
            raise FailedDocumentError("Its bytes are not in the blob store; upload the file again.") from error

    def _page(
        self, conn: Connection, partition: str, after: int
    ) -> Sequence[statements.Upload | statements.UploadName]:
        """Return the next changes. One that cannot be read, such as a time outside of Python's range, costs only itself."""
        uploads = statements.UploadChanges(conn)
        try:
            return uploads.changes(source=self._name, partition=partition, after=after, most=PAGE)
        except psycopg.DataError:
            pass
        rows: list[statements.Upload | statements.UploadName] = []
        while len(rows) < PAGE:
            named = uploads.change_after(source=self._name, partition=partition, after=after)
            if named is None:
                break
            try:
                rows += uploads.changes(source=self._name, partition=partition, after=after, most=1)
            except psycopg.DataError:
                rows.append(named)
            after = rows[-1].change
        return rows

    def _refusal(self, row: statements.UploadName, partition: str) -> Refusal:
        return Refusal(
            source_id=row.source_id,
            partition=partition,
            title=row.file_name,
            path=row.file_name,
            reason="Its record in the database cannot be read. Its owner can send it again.",
            version=f"unreadable {row.change}",
            owner=row.owner,
            collection_ids=(partition,),
        )

    def _item(self, row: statements.Upload) -> Item:
        return Item(
            source_id=row.source_id,
            partition=row.partition,
            title=row.title,
            path=row.file_name,
            mime_type=row.mime_type,
            version=row.content_hash,
            permissions=readers_of(row),
            owner=row.owner,
            author=row.owner,
            url=row.url,
            size=row.size,
            created_at=row.created_at,
            modified_at=row.modified_at,
            collection_ids=(row.partition,),
            tags=row.tags,
            description=row.description,
            owner_scoped=True,
            locator=row.content_hash,
        )

    def _connect(self) -> Connection:
        from resources.stores.postgres import connect

        return connect(self._settings.postgres_dsn, autocommit=True)


SPEC = SourceSpec(
    name=SourceName.UPLOAD,
    label="Upload",
    unit=("day", "days"),
    open=lambda settings, _: Uploads(settings),
    help="Uploads need no settings.",
    aliases=("uploads",),
    capabilities=Capabilities(
        change_feed=True, private_folders=False, own_permissions=True, stored_size=True, user_supplied=True
    ),
    waiting=WaitingWork("waiting_uploads", pending),
)
