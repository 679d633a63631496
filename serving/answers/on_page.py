"""Questions about the page that a reader has open."""

import msgspec

from resources.core.domain import Access
from resources.sources import managed
from serving.answers.service import Answers
from serving.search.references import page
from sql.serving import WebReads


async def document_on_page(answers: Answers, access: Access, page_name: str, collection_id: str | None) -> str | None:
    """Return the ID of the document that a page shows, by its path or address, if the caller may read it in this collection."""
    reference = page(page_name, answers.http.settings.file_roots)
    return await WebReads(answers.http.database).document_by_page(
        **msgspec.structs.asdict(reference),
        collection_id=collection_id,
        sources=list(managed()),
        **answers.http.readable_by(access),
    )
