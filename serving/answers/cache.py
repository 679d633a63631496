"""Cache of the language model's answers to the same question of the same caller, from the same sources, word for word.

Retrieval runs each time, with its permission check; only the call of the model is saved. The key holds the caller's principals and
the very texts that the answer would be made from, so that an entry is found only while every source is the same and still
readable by this caller, and never by another. A better source that came since is another key, too.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from resources.core.domain import Access
from serving.answers.prompt import VERSION
from serving.answers.schemas import AskRequest
from serving.answers.support import Verdict
from serving.http.background import Background
from serving.http.database import Database
from serving.search.retrieval.passage import Passage
from sql.serving import WebQueue, WebReads


class Written(msgspec.Struct, frozen=True, array_like=True):
    """Text that the model wrote, cleaned and checked."""

    answer: str
    found: bool
    sentences: list[Verdict]
    removed_citations: int
    removed_links: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Written)


def key(
    request: AskRequest, question: str, searched: str, access: Access, model: str, sources: Sequence[Passage]
) -> str:
    """Return the sha256 of everything that decides the prompt, the caller's principals included."""
    texts = [[p.chunk_id, p.text_hash, p.title, p.section_path, p.page_start, p.modified_at] for p in sources]
    asked: list[object] = [
        question,
        searched,
        request.conversation_history,
        request.selection,
        request.filters,
        request.mode,
        request.fusion,
        request.dense_weight,
    ]
    asked += request.written
    return hashlib.sha256(
        _encoder.encode([VERSION, model, asked, sorted(access.principals), access.email, texts])
    ).hexdigest()


async def lookup(database: Database, cache_key: str) -> Written | None:
    """Return the answer, if there is one that has not expired. Raises `ServiceUnavailableError`."""
    body = await WebReads(database).answer_cache_lookup(cache_key=cache_key)
    return None if body is None else _decoder.decode(body)


def store(background: Background, cache_key: str, written: Written, seconds: int) -> None:
    """Queue an answer to be written."""
    WebQueue(background).answer_cache_store(cache_key=cache_key, body=_encoder.encode(written), seconds=seconds)
