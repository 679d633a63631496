"""The versions of the index that this process has read, so that cached results from before a change are not reused."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class IndexVersions:
    """The newest version read so far of the whole index, and of each source in it."""

    def __init__(self) -> None:
        self._whole: int | None = None
        self._sources: dict[str, int] = {}

    def read(self, whole: int, sources: Mapping[str, int]) -> None:
        """Record what a statement returned. Statements may answer in another order than they began, so no version falls."""
        self._whole = max(whole, self._whole or 0)
        for source, version in sources.items():
            self._sources[source] = max(version, self._sources.get(source, 0))

    def of(self, sources: Collection[str] = ()) -> tuple[int, ...] | None:
        """Return what changes whenever these sources do, or any source if there are none; None before the first statement."""
        if self._whole is None:
            return None
        return self._whole, *(self._sources.get(source, 0) for source in sorted(sources or self._sources))
