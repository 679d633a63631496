"""Cache of candidates: which chunks a search found in which order, never texts or permissions; every use passes the permission check.

The key holds the caller's principals, so no result crosses from one person to another, and the versions of the sources that the search
asks for, which are read from Postgres at each sign-in: what was found before a sync changed one of them is not found in the cache after it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from cachetools import TTLCache

from serving.identity.directory import Directory
from serving.search.retrieval.query import SearchQuery

CACHE_BYTES = 16 * 2**20
"""Some 4,000 searches: 50 candidates take 4 kB."""


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
    known: float = 0.0
    """How far the passage is the one that the query names; see `serving.search.retrieval.known`. Never cached."""


class Candidates(msgspec.Struct, frozen=True, array_like=True):
    """Candidates, best first. `saturated`: a leg was full, so a greater depth may find more. `expansions`: what a model added.

    `agreement` is the share of the scores still to be taken from similar passages; see `search.retrieval.agree`. `collection` is the one
    that was searched, to read the passages of; None: the active one.
    """

    ranked: list[Candidate]
    saturated: bool
    depth: int
    expansions: list[str] = []
    agreement: float = 0.0
    collection: str | None = None


class Lookup(NamedTuple):
    """A search's key in the cache, the versions of its sources included, and cached candidates if there are any."""

    key: str
    candidates: Candidates | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Candidates)


def key(query: SearchQuery, model: str, versions: tuple[int, ...] | None) -> str:
    """Return the sha256 of everything that decides the candidates, the caller's principals included."""
    # what only decides which of the candidates are returned is the same for all searches
    plain = query._replace(
        limit=0,
        deepest=0,
        threshold=None,
        relevant_only=False,
        respell=False,
        rerank=False,
        group=False,
        neighbours=0,
        seen=frozenset(),
        counted=False,
    )
    shared = plain._asdict()
    shared["access"] = sorted(query.access.principals)
    return hashlib.sha256(_encoder.encode([shared, model, versions])).hexdigest()


def _size(encoded: bytes) -> int:
    return len(encoded)


class CandidateCache:
    """Candidates kept in this process for some seconds, the least recently used discarded first."""

    def __init__(self, directory: Directory, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._kept: TTLCache[str, bytes, float] = TTLCache(CACHE_BYTES, seconds, clock, _size)

    def lookup(self, query: SearchQuery, model: str) -> Lookup:
        """Return what is cached for a search in the versions of its sources that were read at sign-in."""
        found = key(query, model, self._directory.versions.of(query.narrowing.source_types))
        kept = self._kept.get(found)
        return Lookup(found, _decoder.decode(kept) if kept is not None else None)

    def store(self, found: Lookup, candidates: Candidates) -> None:
        """Keep the candidates of a search, unless they alone are larger than the cache."""
        encoded = _encoder.encode(candidates)
        if len(encoded) <= CACHE_BYTES:
            self._kept[found.key] = encoded
