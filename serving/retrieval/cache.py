"""Cache of candidates: which chunks a search found in which order, never texts or permissions; every use passes the permission check.

The key holds the caller's principals, so no result crosses from one person to another. A new version of the index and a time limit end an
entry.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from serving.background import Background
from serving.database import Database
from serving.retrieval.query import SearchQuery
from sql.web import WebQueue, WebReads


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A chunk that the legs found, with its fused score and the score and rank of each leg."""

    chunk_id: str
    fused: float
    dense: float | None = None
    dense_rank: int | None = None
    keyword: float | None = None
    keyword_rank: int | None = None
    agreed: float | None = None
    """The fused score after the agreement of similar passages, which is never cached."""


class Candidates(msgspec.Struct, frozen=True, array_like=True):
    """Candidates, best first. `saturated`: a leg was full, so a greater depth may find more. `expansions`: what a model added.

    `agreement` is the share of the scores still to be taken from similar passages; see `serving.retrieval.agree`. `collection` is the one
    that was searched, to read the passages of; None: the active one.
    """

    ranked: list[Candidate]
    saturated: bool
    depth: int
    expansions: list[str] = []
    agreement: float = 0.0
    collection: str | None = None


class Lookup(NamedTuple):
    """A search's cache key, the version of the index now, and cached candidates if there are any."""

    key: str
    version: int
    candidates: Candidates | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Candidates)


def key(query: SearchQuery, model: str) -> str:
    """Return the sha256 of everything that decides the candidates, the caller's principals included."""
    # what only decides which of the candidates are returned is the same for all searches
    shared = query._replace(limit=0, deepest=0, threshold=None, rerank=False, group=False, neighbours=0)._asdict()
    shared["access"] = sorted(query.access.principals)
    return hashlib.sha256(_encoder.encode([shared, model])).hexdigest()


class CandidateCache:
    """Candidates kept in Postgres for some seconds."""

    def __init__(self, database: Database, background: Background, seconds: int) -> None:
        self._database = database
        self._background = background
        self._seconds = seconds

    async def lookup(self, query: SearchQuery, model: str) -> Lookup:
        """Return what is cached for a search. Raises `ServiceUnavailableError`."""
        cache_key = key(query, model)
        cached = await WebReads(self._database).cache_lookup(cache_key=cache_key)
        candidates = _decoder.decode(cached.candidates) if cached.candidates is not None else None
        return Lookup(cache_key, cached.version, candidates)

    def store(self, found: Lookup, candidates: Candidates) -> None:
        """Queue candidates to be written."""
        WebQueue(self._background).cache_store(
            cache_key=found.key,
            candidates=_encoder.encode(candidates),
            index_version=found.version,
            seconds=self._seconds,
        )
