"""The search page, `/`, and the part of it that is replaced while the user types, `/results`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from msgspec import UNSET

from resources.core.domain import Access, Role
from resources.sources import find, label, parse
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.http.database import Database
from serving.http.errors import UnauthorizedError
from serving.identity.authentication import SessionFrom, sender_of
from serving.identity.people import names_of_people
from serving.identity.visitor import is_navigation, page_route, signed_in, visitor
from serving.search.citations.excerpt import excerpt
from serving.search.facets import FacetValue
from serving.search.filters import DateRange, Filters
from serving.search.results import Result, Span
from serving.search.retrieval.query import MAX_QUERY, composed
from serving.search.retrieval.terms import terms
from serving.search.searches import SearchRequest, SearchResponse, found
from serving.search.service import SearchServices
from serving.search.start import start_of
from serving.search.understanding.filters import Understood
from serving.search.understanding.named import Named
from serving.search.understanding.phrases import KINDS, Kind
from serving.web.formats import kind
from serving.web.render import view
from sql.saved_searches import SavedSearch
from sql.serving import WebReads

PAGE_SIZE = 10
CHOICES: Mapping[str, str] = {"source": "source_type", "type": "mime_type", "author": "author"}
"""Filters that the page offers, as parameters of its address, and the facets that list their values."""
PERIODS: Mapping[str, str] = {"7": "Past week", "30": "Past month", "365": "Past year"}
NAMES: Mapping[str, str] = {"person": "People", "channel": "Channels", "folder": "Folders"}


class Option(NamedTuple):
    """A value of a filter, as it is offered."""

    value: str
    name: str
    chosen: bool


class RequestedSearch(NamedTuple):
    """The search that an address of the page asks for."""

    query: str = ""
    chosen: Mapping[str, str] = {}
    days: str = ""
    ignored: tuple[Kind, ...] = ()
    cursor: str | None = None

    def address(self, **changes: Any) -> str:
        """Return the address of the page with changes to this search, on the first page of its results."""
        wanted = self._replace(**changes)
        pairs = [("q", wanted.query), *wanted.chosen.items(), ("days", wanted.days)]
        pairs += [("ignore", name) for name in wanted.ignored]
        return "/?" + urlencode([(name, value) for name, value in pairs if value])

    def without(self, name: Kind) -> str:
        """Return the address of this search without understanding one kind of filter."""
        return self.address(ignored=(*self.ignored, name))

    def removing(self, one: Understood) -> str:
        """Return the address of this search without a filter that the query states."""
        if not one.operator:
            return self.without(one.kind)
        return self.address(query=" ".join((self.query[: one.start] + self.query[one.end :]).split()))

    def more(self, cursor: str) -> str:
        return f"{self.address()}&{urlencode({'cursor': cursor})}"

    def filters(self) -> Filters:
        """Return the filters that were chosen."""
        return Filters(
            source_types=[self.chosen["source"]] if "source" in self.chosen else [],
            mime_types=[self.chosen["type"]] if "type" in self.chosen else [],
            authors=[self.chosen["author"]] if "author" in self.chosen else [],
            date_range=DateRange(last_days=int(self.days)) if self.days else None,
        )

    @property
    def name(self) -> str:
        """The words of this search: its query and what was chosen."""
        chosen = [_name(parameter, value) for parameter, value in self.chosen.items()]
        return " · ".join([self.query, *chosen, *([PERIODS[self.days].lower()] if self.days else [])])


def saved_address(saved: SavedSearch) -> str | None:
    """Return the address of a saved search; None if it has filters that the page does not offer."""
    filters = msgspec.convert(saved.filters, Filters)
    sources = [spec.name.value if (spec := find(one)) else one for one in filters.source_types]
    filters = msgspec.structs.replace(filters, source_types=sources)
    lists = {"source": filters.source_types, "type": filters.mime_types, "author": filters.authors}
    days = filters.date_range and filters.date_range.last_days
    search = RequestedSearch(
        saved.query, _known({name: values[0] for name, values in lists.items() if values}), str(days) if days else ""
    )
    return search.address() if search.days in {"", *PERIODS} and search.filters() == filters else None


def _known(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what was chosen, without a source that is not known."""
    known = {name: value for name, value in chosen.items() if value}
    if "source" in known:
        try:
            known["source"] = parse(known["source"]).value
        except ValueError:
            del known["source"]
    return known


def wanted(request: Request[Any, Any, Any]) -> RequestedSearch:
    """Return the search of an address. Unknown parameters and values are left out."""
    query = request.query_params
    days = query.get("days", "")
    return RequestedSearch(
        query=composed(query.get("q", ""))[:MAX_QUERY],
        chosen=_known({name: query.get(name, "") for name in CHOICES}),
        days=days if days in PERIODS else "",
        ignored=tuple(name for name in KINDS if name in query.getall("ignore", [])),
        cursor=query.get("cursor"),
    )


def _request(requested: RequestedSearch) -> SearchRequest:
    return SearchRequest(
        query=requested.query,
        top_k=PAGE_SIZE,
        explain=True,
        filters=requested.filters(),
        understand=[name for name in KINDS if name not in requested.ignored],
        cursor=requested.cursor,
        total=True,
        facets=list(CHOICES.values()),
        names=True,
    )


def _name(parameter: str, value: str) -> str:
    return {"source": label, "type": kind}.get(parameter, str)(value)


def _options(parameter: str, counted: Sequence[FacetValue], chosen: str, people: Mapping[str, str]) -> list[Option]:
    """Return what may be chosen: the values among the results, and the present choice. `people`: names by address."""
    values = dict.fromkeys([*(one.value for one in counted), *filter(None, [chosen])])
    options = [Option(one, people.get(one) or _name(parameter, one), one == chosen) for one in values]
    return sorted(options, key=lambda one: one.name.casefold())


class ShownExcerpt(NamedTuple):
    """What a page shows of a passage, and the query's words in it."""

    text: str
    highlights: list[Span]


def _excerpt(result: Result, words: frozenset[str]) -> ShownExcerpt:
    headings = None if result.mime_type == CONVERSATION else [result.title, *result.section_path]
    found = excerpt(result.chunk_text, words, headings)
    return ShownExcerpt(found.text, [Span(start, end) for start, end in found.spans])


def _words(requested: RequestedSearch, response: SearchResponse) -> frozenset[str]:
    """Return the words that were searched: those of the query that state no filter, and what was searched for instead of some."""
    query, at = "", 0
    for one in sorted(response.understood, key=lambda one: one.start):
        if one.applied and one.start >= at:
            query, at = f"{query}{requested.query[at : one.start]} ", one.end
    instead = (word for one in response.spelling or () for word in one.instead)
    return terms(" ".join([query + requested.query[at:], *instead]))


def _shown(requested: RequestedSearch, response: SearchResponse, people: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the template for a search with its response."""
    words = _words(requested, response)
    counted = response.facets if response.facets is not UNSET else {}
    return {
        "search": requested,
        "response": response,
        "folded": folded(response.results) if requested.cursor is None else 0,
        "excerpts": {one.chunk_id: _excerpt(one, words) for one in response.results},
        "names": _names(response),
        "people": people,
        "total": response.total if response.total is not UNSET else None,
        "choices": {
            name: _options(name, counted.get(facet, []), requested.chosen.get(name, ""), people)
            for name, facet in CHOICES.items()
        },
        "periods": [Option(days, name, days == requested.days) for days, name in PERIODS.items()],
    }


def _names(response: SearchResponse) -> dict[str, list[Named]]:
    """Return the names that the query ends with, by what the page calls their kind."""
    found = response.names if response.names is not UNSET else []
    return {label: named for kind, label in NAMES.items() if (named := [one for one in found if one.kind == kind])}


def folded(found: Sequence[Result]) -> int:
    """Return how many results are folded: the weak ones, if there are others."""
    weak = sum(one.weak is True for one in found)
    return weak if weak < len(found) else 0


def _empty(requested: RequestedSearch) -> dict[str, Any]:
    return {"search": requested, "response": None, "folded": 0, "total": None, "choices": {}, "periods": []}


async def _values(search: SearchServices, access: Access, requested: RequestedSearch) -> dict[str, Any]:
    base = {"base": search.http.settings.base_url}
    if not requested.query:
        return _empty(requested) | base
    response = await found(search, _request(requested), access)
    people, reading = await asyncio.gather(
        names_of_people(search.identity, access, _people(requested, response)),
        _still_reading(search.http.database, access),
    )
    return _shown(requested, response, people) | base | {"reading": reading}


def _people(requested: RequestedSearch, response: SearchResponse) -> Iterator[str | None]:
    """Yield whom the page shows: owners of results, authors to choose, and who the query names."""
    yield from (one.owner for one in response.results)
    yield from (one.value for one in (response.facets or {}).get("author", []))
    yield from (one.name for one in response.names or [])
    yield requested.chosen.get("author")


@page_route("/", "home", "search", SessionFrom.LINK)
async def home(request: Request[Any, Any, Any], search: NamedDependency[SearchServices]) -> Response[str]:
    """Show the search page to people who are signed in, and to others how to sign in. A search from another site waits for a click."""
    requested = wanted(request)
    try:
        access = await visitor(request, search.identity)
    except UnauthorizedError:
        if requested.query:
            raise
        access = None  # a session that is over
    if access is None and requested.query:
        raise UnauthorizedError("token-missing", "")
    if access is None:
        ways = search.identity.ways
        ready, passkeys = (
            any(ways._replace(passkeys="")),
            bool(ways.passkeys),
        )  # a passkey is added after another sign-in
        return view("welcome.html", ready=ready, passkeys=passkeys, address=search.http.settings.base_url)
    if requested.query and sender_of(search.identity, request) is not SessionFrom.OWN:
        return view("search.html", access, script="search.js", here="/", suggested=True, **_empty(requested))
    values = await _values(search, access, requested)
    if not requested.query:
        start = await start_of(search, access)
        saved = [(one, saved_address(one)) for one in start.saved]
        values |= {"start": start, "saved": saved, "now": search.http.clock()}
    return view("search.html", access, script="search.js", here="/", **values)


@page_route("/results", "results", "search")
async def results(request: Request[Any, Any, Any], search: NamedDependency[SearchServices]) -> Response[Any]:
    """Return the results of the search page alone. A browser that opens them is sent to that page."""
    access = await signed_in(request, search.identity)
    if is_navigation(request):
        return Response(None, status_code=303, headers={"Location": f"/?{request.url.query}"})
    return view("parts/results.html", access, **await _values(search, access, wanted(request)))


async def _still_reading(database: Database, access: Access) -> str | None:
    """Return a sentence on the first syncs that are running, None if there are none. Counts are for operators and auditors.

    A source that receives documents, such as uploads, has nothing to be read before it has received some.
    """
    syncs = await WebReads(database).first_syncs()
    found = [one for one in syncs if (spec := find(one.source)) is None or spec.waiting is None]
    if not found:
        return None
    *names, last = (label(one.source) for one in found)
    named = f"{', '.join(names)} and {last}" if names else last
    documents, done = sum(one.documents for one in found), sum(one.done for one in found)
    counted = documents and access.has(Role.OPERATOR, Role.AUDITOR)
    count = f": {done:,} of {documents:,} documents" if counted else ""
    return f"Still reading {named}{count}. Try again in a moment."
