"""Cached candidates of searches: which chunks in which order, never texts or rights; every use passes the registry recheck.

The key holds the caller's principals, so that no result ever crosses from one person to another; the index's version and a time
limit end an entry.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from resources.core.domain import Access
from serving.database import Database
from serving.retrieval.plan import Plan


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """One chunk that the legs found, with its fused score and how it came by it."""

    chunk_id: str
    fused: float
    dense_score: float | None = None
    dense_rank: int | None = None
    keyword_score: float | None = None
    keyword_rank: int | None = None


class Candidates(msgspec.Struct, frozen=True, array_like=True):
    """Candidates, best first. `saturated`: a leg was full, so a greater depth may find more. `expansions`: what a model added.

    `agreement`: how much of a score is yet to be taken from passages that say the same; see `serving.retrieval.agree`.
    """

    ranked: list[Candidate]
    saturated: bool
    depth: int
    expansions: list[str] = []
    agreement: float = 0.0


class Found(NamedTuple):
    """What the cache knows: the index's version now, and candidates if there are any."""

    version: int
    candidates: Candidates | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Candidates)


def key(search: Plan, access: Access, model: str) -> str:
    """Return the cache key: sha256 of all that decides the candidates, the caller's principals included."""
    return hashlib.sha256(_encoder.encode([search, model, sorted(access.principals)])).hexdigest()


async def lookup(database: Database, cache_key: str) -> Found:
    """Return the version and, if still valid, the candidates. Raises `ServiceUnavailableError`."""
    row = (await database.fetch("cache_lookup", {"cache_key": cache_key}))[0]
    data: bytes | None = row["candidates"]
    return Found(row["version"], _decoder.decode(data) if data is not None else None)


def row(cache_key: str, candidates: Candidates, version: int, seconds: int) -> dict[str, object]:
    """Return the parameters of `cache_store`."""
    return {
        "cache_key": cache_key,
        "candidates": _encoder.encode(candidates),
        "index_version": version,
        "seconds": seconds,
    }
