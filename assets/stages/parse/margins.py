"""Headers and footers of texts, which their files keep apart from the pages."""

import re
from collections.abc import Iterable, Iterator

from assets.stages.normalize import BlockDraft, one_line

_PAGE_NUMBER = re.compile(
    r"\W*+(?:(?:page|seite|página|pagina|pag|blatt|p|s)\b\W*+)?\d*+(?:\W*+(?:of|von|de|di|sur|van|av)?\W*+\d+)?\W*+",
    re.IGNORECASE,
)


def margins(drafts: Iterable[BlockDraft]) -> Iterator[BlockDraft]:
    """Yield the blocks of all headers and footers below a heading, each once and without those that are only a page's number."""
    seen: set[str] = set()
    for draft in drafts:
        key = one_line(draft.text)
        if key not in seen and not _PAGE_NUMBER.fullmatch(key):
            if not seen:
                yield BlockDraft(kind="heading", text="Header and footer", level=1)
            seen.add(key)
            yield BlockDraft(kind="paragraph" if draft.kind == "heading" else draft.kind, text=draft.text)
