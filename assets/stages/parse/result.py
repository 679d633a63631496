"""The result of a format's parser, before normalisation."""

from collections.abc import Iterable

import msgspec

from assets.stages.normalize import BlockDraft


class Parsed(msgspec.Struct, kw_only=True):
    """Drafts in reading order, with the file's own metadata."""

    drafts: Iterable[BlockDraft]
    title: str | None = None
    author: str | None = None
    page_count: int | None = None
    warnings: list[str] = []
