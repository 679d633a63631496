"""The routes of this room, module by module."""

from serving.documents import (
    ingest,
    listing,
    originals,
    page,
    push,
    push_batch,
    reading,
    revisions,
    upload_page,
    uploads,
)

MODULES = (ingest, listing, originals, page, push, push_batch, reading, revisions, upload_page, uploads)
