"""Count what the stores hold of a source after each stage, as a whole and by partition, from the counts that the registry keeps.

Rows are counted by document: a text that two documents share counts for both, although the lake holds it once. Counting distinct rows
would read whole tables of the lake after every sync.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sql.rows import PartitionCounts


class Rows(NamedTuple):
    """Rows of a stage that belong to a source."""

    total: int
    partitions: Mapping[str, int]


def rows_of(stage: str, states: Sequence[PartitionCounts]) -> Rows:
    """Return the rows of a stage: documents, texts, passages, vectors or points."""
    if stage == "raw":
        found = {state.partition: state.live + state.skipped + state.failed for state in states}
    elif stage == "parsed":
        found = {state.partition: state.live for state in states}
    else:
        found = {state.partition: state.passages for state in states}
    return Rows(sum(found.values()), found)
