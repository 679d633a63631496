"""The command `why`, which traces a document from its source to its rank; the operator sees its state regardless of permissions."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Groups, Json, person
from orchestration.cli.installed import database
from orchestration.cli.output import program, say, say_json
from resources.core import permissions
from resources.core.domain import Access
from resources.core.durations import duration
from resources.core.errors import ConcordanceError
from resources.people import groups_are_managed
from resources.settings import Settings, load
from sql.serving import WebSession

if TYPE_CHECKING:
    from serving.search.trace import Trace


def why(
    source: Annotated[
        str,
        Parameter(
            help="The source id, doc_id or link of the document (Drive, Slack, a book's page, a page of Concordance)."
        ),
    ],
    /,
    *,
    as_: Annotated[str | None, Parameter(name="--as", help="Email of the person who cannot find it.")] = None,
    group: Groups = None,
    query: Annotated[str | None, Parameter(help="A query to rank the document for, as that person.")] = None,
    json: Json = False,
) -> int:
    who = person(as_, f"{program()} why {shlex.quote(source)} --as ann@example.com")
    found = look(load(), source, who, group or [], query)
    if json:
        say_json(msgspec.to_builtins(found))
    else:
        for line in _lines(found, source, who, query):
            say(line)
    return 0 if found.found else 1


def look(settings: Settings, source: str, email: str, groups: list[str], query: str | None) -> Trace:
    """Return the trace. Raises `NotRunningError` if the database, or with a query the HTTP interface, is not responding."""
    from orchestration.client import Client
    from serving.search.references import reference
    from serving.search.trace import RANKS, parameters, trace

    named, max_age = reference(source), duration(settings.acl_max_age)
    fresh_since = datetime.now(UTC) - max_age
    with database(settings) as connection:
        access = _access(settings, connection, email, groups, fresh_since)
        statements = WebSession(connection)
        row = statements.why(
            **parameters(named), principals=sorted(access.principals), fresh_since=fresh_since, operator=True
        )
        shares = None if row is None else statements.shares(doc_id=row.doc_id, email=None)
    points = None if row is None else _points(settings, row.doc_id)
    rank = None
    if query is not None and row is not None:
        with Client(settings, email, groups) as client:
            rank = _rank(row.doc_id, client.search(query, RANKS)["results"])
    return trace(
        row,
        points=points,
        asked=query is not None,
        rank=rank,
        max_age=max_age,
        shares=shares,
        principals=access.principals,
    )


def _access(settings: Settings, connection: Any, email: str, groups: list[str], fresh_since: datetime) -> Access:
    """Return the person's access, including groups and teams from the synced directory."""
    address = permissions.email(email)
    row = WebSession(connection).directory(email=address, fresh_since=fresh_since, token_id=None, issued=None)
    names = row.principals
    if groups_are_managed(settings, row.read_sources):
        groups = []
    teams = [name for name in names if name.startswith("slack:")]
    known = [name for name in names if name.startswith("group:")]
    return Access(email=address, principals=permissions.principals_of(address, [*groups, *known], teams))


def _points(settings: Settings, doc_id: str) -> int | None:
    from resources.stores import qdrant

    client = qdrant.client(settings)
    try:
        return qdrant.count_points(client, qdrant.ALIAS, [doc_id])
    except ConcordanceError:
        return None  # the trace reports that the index is not responding
    finally:
        client.close()


def _rank(doc_id: str, results: list[dict[str, Any]]) -> int | None:
    for place, one in enumerate(results, start=1):
        if doc_id in (one["doc_id"], *(other["doc_id"] for other in one["also_in"])):
            return place
    return None


def _lines(found: Trace, source: str, email: str, query: str | None) -> list[str]:
    if not found.found:
        return [f"{source} was not found in any source. Check that its root, drive or channel is configured."]
    stages = found.stages
    points = (
        "the vector index is not responding"
        if stages.embedded is None
        else f"{stages.embedded} points in the vector index"
    )
    lines = [
        f"State      {found.state}",
        f"Parsed     {'yes' if stages.parsed else 'no'}",
        f"Indexed    {'yes' if stages.indexed else 'no'}: {stages.chunked} chunks in Postgres, {points}",
        f"Permitted  {'yes' if found.permitted else 'no'}, for {email}",
    ]
    if found.shared_with is not None:
        by = f", access by {', '.join(found.access_by or [])}" if found.access_by else ""
        lines.append(f"Shared     with {', '.join(found.shared_with) or 'no one'}{by}")
    if query is not None:
        lines.append(f"Rank       {found.rank if found.rank is not None else 'none'}, for {query!r}")
    lines += [f"Note       {note.text}" for note in found.notes]
    return [*lines, found.reason or "It can be found."]
