"""Wrap a `Source` and record what it lists, without changing its behaviour.

Reconciliation compares the record with what the stores held before, so that one listing serves both the comparison and the repairing
sync. Only a complete listing is evidence that something is gone.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from resources.core.domain import Batch
from resources.core.errors import ConcordanceError, LostPartitionError
from resources.core.ports import Source

EVERYTHING = "*"
"""Placeholder for all partitions, if the source cannot list them."""


class ListingRecord:
    """Forwards calls to a source and records the answers. One instance serves one sync or one survey.

    `note` is called with the source ids of each batch: those that the
    source has, refused ones included, and explicit tombstones.
    """

    def __init__(
        self,
        port: Source,
        note: Callable[[Iterable[str], Iterable[str]], None] | None = None,
    ) -> None:
        self._port = port
        self._note_ids = note
        self.complete: set[str] = set()
        """Partitions that were listed completely."""
        self.lost_partitions: set[str] = set()
        self.unlisted: dict[str, str] = {}
        """Partitions that could not be listed completely, with the reason; `*`: none could."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    @property
    def source(self) -> Source:
        """The record itself, typed as the wrapped source."""
        return cast("Source", self)

    def partitions(self) -> list[str]:
        try:
            return self._port.partitions()
        except ConcordanceError as error:
            self.unlisted[EVERYTHING] = str(error)
            raise

    def lost(self, known: list[str]) -> list[str]:
        lost = self._port.lost(known)
        self.lost_partitions.update(lost)
        return lost

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        partial = False
        try:
            for batch in self._port.changes(partition, cursor):
                complete = self._note(batch)
                partial = batch.listing == "page" and not complete
                yield batch
        except LostPartitionError:
            self.lost_partitions.add(partition)
            raise
        except ConcordanceError as error:
            self.unlisted[partition] = str(error)
            raise
        if partial:
            self.unlisted[partition] = "Part of it could not be listed."

    def begin(self, known: list[str]) -> list[str]:
        """Make the calls that a sync begins with and return the partitions to list; none if the source refuses."""
        try:
            self._port.directory()
            partitions = self.partitions()
            self.lost(known)
        except ConcordanceError as error:
            self.unlisted[EVERYTHING] = str(error)
            return []
        return partitions

    def listing(self, partition: str) -> Iterator[Batch]:
        """Yield the partition from the beginning; a listing that fails ends and is recorded."""
        try:
            yield from self.changes(partition, None)
        except ConcordanceError:
            return  # recorded by `changes`

    def survey(self, known: list[str]) -> None:
        """List everything without fetching anything."""
        for partition in self.begin(known):
            for _ in self.listing(partition):
                pass

    def is_authoritative_for(self, partition: str) -> bool:
        """Return True if the source listed the partition completely. One that left the settings is not: its documents wait."""
        return partition in self.complete

    def _note(self, batch: Batch) -> bool:
        """Record a batch; return True if it completes a listing."""
        if self._note_ids is not None:
            ids = [item.source_id for item in batch.seen]
            ids += [refusal.source_id for refusal in batch.refused]
            self._note_ids(ids, batch.deleted)
        complete = batch.listing == "complete"
        if complete:
            self.complete.add(batch.partition)
        return complete
