"""What a source shows, noted while it passes: a `Source` enters, and another one that behaves the same leaves, with its notes.

Reconciliation compares the notes with what the stores held before; so one listing serves both the comparison and the sync that
mends. Only a listing that came to its end may say that something is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from resources.domain import Batch
from resources.errors import ConcordanceError, LostPartitionError
from resources.ports import Source

EVERYTHING = "*"
"""Stands for all partitions where the source cannot even name them."""


class Witness:
    """Passes on what a source says and takes note of it. One instance serves one sync or one survey."""

    def __init__(self, port: Source) -> None:
        self._port = port
        self.shown: set[str] = set()
        """Source ids of all documents that the source has, handed over or refused."""
        self.deleted: set[str] = set()
        """Source ids of explicit tombstones."""
        self.complete: set[str] = set()
        """Partitions of which everything was shown."""
        self.retired_partitions: set[str] = set()
        self.lost_partitions: set[str] = set()
        self.unlisted: dict[str, str] = {}
        """Partitions that could not be listed to their end, with the reason; `*`: none could."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    @property
    def source(self) -> Source:
        """This witness as the source that it stands for."""
        return cast("Source", self)

    def partitions(self) -> list[str]:
        """Return what the source returns."""
        try:
            return self._port.partitions()
        except ConcordanceError as error:
            self.unlisted[EVERYTHING] = str(error)
            raise

    def lost(self, known: list[str]) -> list[str]:
        """Return what the source returns."""
        lost = self._port.lost(known)
        self.lost_partitions.update(lost)
        return lost

    def retired(self, known: list[str]) -> list[str]:
        """Return what the source returns."""
        retired = self._port.retired(known)
        self.retired_partitions.update(retired)
        return retired

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what the source yields."""
        last = None
        try:
            for batch in self._port.changes(partition, cursor):
                self._note(batch)
                last = batch
                yield batch
        except LostPartitionError:
            self.lost_partitions.add(partition)
            raise
        except ConcordanceError as error:
            self.unlisted[partition] = str(error)
            raise
        if last is not None and last.listing == "page":
            self.unlisted[partition] = "A part of it could not be listed."

    def begin(self, known: list[str]) -> list[str]:
        """Ask the questions that a sync begins with and return the partitions to list; none when the source refuses."""
        try:
            self._port.directory()
            partitions = self.partitions()
            self.lost(known)
        except ConcordanceError as error:
            self.unlisted[EVERYTHING] = str(error)
            return []
        return partitions

    def listing(self, partition: str) -> Iterator[Batch]:
        """Yield the partition from its beginning; a listing that fails ends, and is noted."""
        try:
            yield from self.changes(partition, None)
        except ConcordanceError:
            return  # noted on its way through `changes`

    def survey(self, known: list[str]) -> None:
        """List everything without fetching anything."""
        for partition in self.begin(known):
            for _ in self.listing(partition):
                pass
        if EVERYTHING not in self.unlisted:
            self.retired(known)

    def is_authoritative_for(self, partition: str) -> bool:
        """Tell whether the source said to the end what it has in a partition, or that it does not have it any more."""
        return partition in self.complete or partition in self.retired_partitions

    def _note(self, batch: Batch) -> None:
        ids = [item.source_id for item in batch.seen]
        ids += [refusal.source_id for refusal in batch.refused]
        self.deleted.update(batch.deleted)
        self.shown.difference_update(batch.deleted)
        self.shown.update(ids)
        self.deleted.difference_update(ids)
        if batch.listing == "complete":
            self.complete.add(batch.partition)
