"""What each format's parser hands back before normalisation."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assets.stages.normalize import Draft


class Parsed(msgspec.Struct, kw_only=True):
    """Drafts in reading order, and what the file says of itself."""

    drafts: Iterable[Draft]
    title: str | None = None
    author: str | None = None
    page_count: int | None = None
    warnings: list[str] = []
