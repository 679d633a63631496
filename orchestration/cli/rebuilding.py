"""The command `rebuild registry`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from orchestration.cli.arguments import Json, Source
from orchestration.cli.output import note, say, say_json
from resources.core.domain import SourceName
from resources.schema import prepare
from resources.settings import load
from resources.sources import names

LOST = (
    "sessions, API keys, revoked tokens, agents and accounts that were connected by consent",
    "people, groups and suspensions from SCIM, directories and providers, until they are read again",
    "answers, conversations, feedback, saved searches and the question set",
    "the audit log, receipts of deletions, and the history of syncs and grants",
    "held deletions, take-downs, spendings on embedding, and from which documents uploads were copied",
    "new shares of uploads that no sync had read; ended shares stay ended, and removed uploads hidden",
)
"""What the lake does not hold."""


def rebuild_registry(
    source: Annotated[Source | None, Parameter(help="Only this source.")] = None, /, *, json: Json = False
) -> None:
    from assets.upkeep.registry import rebuild_registry as rebuild

    settings = load()
    prepare(settings.postgres_dsn)
    found = [rebuild(settings, name) for name in (names() if source is None else [SourceName(source)])]
    rebuilt = any(one.documents or one.deleted for one in found)
    if json:
        say_json({"sources": found, "lost": LOST if rebuilt else ()})
        return
    for one in found:
        uploads = f", {one.uploads} with their records" if one.uploads else ""
        hidden = " They are shown to no one until the next sync." if one.hidden and one.documents else ""
        say(f"{one.source.value}: {one.documents} documents{uploads}, {one.deleted} deleted.{hidden}")
    if not rebuilt:
        note("The registry has every document that the lake holds.")
        return
    note("Lost:")
    for line in LOST:
        note(f"  {line}")
    note("The next sync of each source indexes them from the lake: concordance sync SOURCE --wait")
