"""`/api/saved-searches`: searches that a person keeps by a name, on the start page and for programs."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError, QuotaExceededError
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.filters import Filters, dated, narrowing
from serving.search.retrieval.query import normalise
from serving.search.schemas import Question
from serving.search.service import SearchServices
from sql.saved_searches import SavedSearch, SavedSearches

NAMESPACE = uuid.UUID("5f0c9a1e-8f43-4d0e-9b55-0f7f6a1d2c3b")
"""Of the IDs, which follow from owner and name."""
MOST = 100
"""Saved searches of a person."""
_SAVED = {
    "search_id": "0d4b7a52-7f0e-4e8a-9c6b-2a1f3e5d7c90",
    "name": "Leave, last month",
    "query": "parental leave",
    "filters": {"source_types": ["slack"], "date_range": {"last_days": 30}},
    "saved_at": "2026-11-22T00:16:33Z",
}


class SavedSearchList(msgspec.Struct, frozen=True):
    """The caller's saved searches, by name."""

    searches: list[SavedSearch]
    """At most 100."""


class NewSavedSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search to be kept."""

    name: Annotated[str, Meta(max_length=200, extra_json_schema={"minLength": 1})]
    """Its name. It replaces a saved search of the same name."""
    query: Question
    """What to search for: 1 to 1000 characters after white space is collapsed."""
    filters: Filters | None = None
    """Filters that every result must match. Null: none."""


class SavedSearchRemoved(msgspec.Struct, frozen=True):
    """A saved search that is gone."""

    search_id: str
    """The ID of the saved search."""
    status: Literal["removed"] = "removed"
    """The search is not kept any more."""


async def saved_searches_of(search: SearchServices, access: Access) -> list[SavedSearch]:
    """Return the searches that the caller has saved, by name."""
    return await SavedSearches(search.http.database).saved_of(email=access.email)


@get(
    "/api/saved-searches",
    operation_id="listSavedSearches",
    tags=["search"],
    summary="List one's saved searches",
    opt=limited("read") | described(example={"searches": [_SAVED]}),
)
async def list_saved_searches(
    request: Request[Access, Any, Any], search: NamedDependency[SearchServices]
) -> SavedSearchList:
    """Return the searches that the caller has saved. Send `query` and `filters` to `POST /api/rag/search` to run one."""
    return SavedSearchList(await saved_searches_of(search, request.user))


@post(
    "/api/saved-searches",
    operation_id="saveSearch",
    tags=["search"],
    summary="Save a search",
    status_code=200,
    opt=limited("write")
    | described(
        problems=("quota-exceeded",),
        request={name: _SAVED[name] for name in ("name", "query", "filters")},
        example=_SAVED,
        repeatable=True,
    ),
)
async def save_search(
    request: Request[Access, Any, Any], data: JSONBody[NewSavedSearch], search: NamedDependency[SearchServices]
) -> SavedSearch:
    """Keep a search for the caller, in place of one with the same name. A period in `last_days` moves on with the date."""
    name, now = " ".join(data.name.replace("\x00", " ").split()), search.http.clock()
    if not name:
        raise InvalidRequestError("name: is empty; give the search a name.")
    narrowing(dated(data.filters, now.date()))  # invalid filters are refused now, not when the search is run
    saved = await SavedSearches(search.http.database).save(
        search_id=str(uuid.uuid5(NAMESPACE, f"{request.user.email}\n{name}")),
        email=request.user.email,
        name=name,
        query=normalise(data.query),
        filters=_without_empty(data.filters),
        now=now,
        most=MOST,
    )
    if saved is None:
        raise QuotaExceededError(f"You have {MOST} saved searches, which is the limit. Remove one first.")
    return saved


@delete(
    "/api/saved-searches/{search_id:str}",
    operation_id="removeSavedSearch",
    tags=["search"],
    summary="Remove a saved search",
    status_code=200,
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"search_id": _SAVED["search_id"]},
        example={"search_id": _SAVED["search_id"], "status": "removed"},
    ),
)
async def remove_saved_search(
    request: Request[Access, Any, Any],
    search: NamedDependency[SearchServices],
    search_id: Annotated[str, PathParameter(description="ID of the search, from `GET /api/saved-searches`.")],
) -> SavedSearchRemoved:
    """Remove a saved search of the caller. Those of others do not exist for the caller."""
    missing = ProblemError("not-found", "There is no such saved search of yours.")
    known = parse_id(search_id, missing)
    if not await SavedSearches(search.http.database).remove(search_id=known, email=request.user.email):
        raise missing
    return SavedSearchRemoved(known)


def _without_empty(filters: Filters | None) -> dict[str, Any]:
    stated = msgspec.to_builtins(filters or Filters())
    if stated["date_range"]:
        stated["date_range"] = {name: value for name, value in stated["date_range"].items() if value is not None}
    return {name: value for name, value in stated.items() if value}
