"""Add what a question says to the filters of its request. Both hold: a search is only ever narrowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from resources.core.domain import Access, SourceName
from serving.search.filters import DateRange, Filters, dated, narrowing
from serving.search.retrieval.query import Narrowing, normalise
from serving.search.retrieval.terms import terms
from serving.search.understanding.grammar import Grammar
from serving.search.understanding.names import ReadableNames
from serving.search.understanding.operators import Operators, blanked, stated
from serving.search.understanding.people import may_hold_names
from serving.search.understanding.phrases import KINDS, Kind, Names, Phrase

Understand = bool | Annotated[list[Kind], Meta(max_length=len(KINDS))]
"""True for all kinds of filters, or the kinds that may be understood."""


class Understood(msgspec.Struct, frozen=True):
    """A filter that the question states: `text` is its part from `start` to `end`, `filters` what it stands for in `filters`.

    `applied` is False where it would have left no result.
    """

    kind: Kind
    """What the query states."""
    text: str
    """The words of the query that state it."""
    start: int
    """First character of `text` in the query after white space is collapsed, from 0."""
    end: int
    """The character after the last one of `text`."""
    filters: dict[str, Any]
    """The filter, in the form of `filters` of a request."""
    operator: bool
    """True for an operator, such as `type:pdf`; false for words."""
    applied: bool
    """False if the filter contradicts the request's `filters` or would leave no result, and was ignored."""


class Reading(NamedTuple):
    """A question as it is understood: the text to search for and the filters to apply."""

    text: str
    narrowing: Narrowing
    asked: str
    understood: list[Understood]
    strict: Reading | None = None
    """The question with its operators and the request's filters alone; None: they are all there is."""
    open: bool = False
    """The question has nothing but operators, so everything that they let through is meant."""

    @property
    def narrows(self) -> bool:
        """True if filters were understood that may be ignored if nothing is found with them."""
        return any(one.applied and not one.operator for one in self.understood)

    def without(self) -> Reading:
        """Return the question with its operators and the request's filters alone, for when nothing was found with those understood."""
        understood = [msgspec.structs.replace(one, applied=one.operator and one.applied) for one in self.understood]
        return (self.strict or self)._replace(understood=understood)


class Understanding:
    """Reads questions."""

    def __init__(
        self,
        grammar: Grammar,
        operators: Operators,
        names: ReadableNames,
        clock: Callable[[], datetime],
        acl_max_age: timedelta,
    ) -> None:
        self._grammar = grammar
        self._operators = operators
        self._names = names
        self._clock = clock
        self._max_age = acl_max_age

    async def read(self, question: str, access: Access, filters: Filters | None, wanted: Understand) -> Reading:
        """Return the question with its filters. Raises `InvalidRequestError` for a question that is empty or too long."""
        asked, now = normalise(question), self._clock()
        plain = narrowing(dated(filters, now.date()))
        kinds: list[Kind] = [kind for kind in KINDS if wanted is True or (wanted and kind in wanted)]
        if not kinds:
            return Reading(asked, plain, asked, [])
        names, fresh_since = Names(), now - self._max_age
        operated = stated(asked) & {"from", "in"}
        folders = "in" in operated and "place" in kinds
        if (may_hold_names(asked) or operated) and {"author", "channel", "place"} & set(kinds):
            names = await self._names.of(access, fresh_since, folders=folders)
        me = await self._names.own(access) if "from:me" in asked.lower() else ()
        operators, phrases = self._phrases(asked, kinds, names, now.date(), me)
        if not await self._names.still_known(names, [*operators, *phrases], access, fresh_since):
            names = await self._names.of(access, fresh_since, folders=folders)
            operators, phrases = self._phrases(asked, kinds, names, now.date(), me)
        whole = reading(asked, sorted([*operators, *phrases], key=lambda one: one.start), plain)
        return whole._replace(strict=reading(asked, operators, plain)) if phrases else whole

    def _phrases(
        self, asked: str, kinds: Sequence[Kind], names: Names, today: date, me: Sequence[str]
    ) -> tuple[list[Phrase], list[Phrase]]:
        """Return the operators of a question, and what the rest of it states in words."""
        operators = self._operators.phrases(asked, kinds, names, me)
        words = blanked(asked, ((one.start, one.end) for one in operators))
        return operators, self._grammar.phrases(words, today, kinds, names)


def reading(asked: str, phrases: Sequence[Phrase], plain: Narrowing) -> Reading:
    """Return the question with the filters of these phrases, whose words are not searched for unless nothing else is left."""
    if not phrases:
        return Reading(asked, plain, asked, [])
    narrowed, understood, rest, at = plain, list[Understood](), "", 0
    for phrase in phrases:
        both = _both(narrowed, narrowing(_filters(phrase)))
        applied = both is not None and phrase.start >= at
        if both is not None and applied:
            narrowed = both
            rest += f"{asked[at : phrase.start]} "
            at = phrase.end
        words = asked[phrase.start : phrase.end]
        shown = as_filters(phrase)
        understood.append(Understood(phrase.kind, words, phrase.start, phrase.end, shown, phrase.operator, applied))
    rest = " ".join((rest + asked[at:]).split()).strip(" ,;:")
    said = re.search(r"\w", rest) is not None
    if all(phrase.operator for phrase in phrases):
        return Reading(
            rest if said else " ".join(_words_of(phrases)) or asked, narrowed, asked, understood, open=not said
        )
    searched = rest if said and terms(f"{rest} about") == terms(rest) else asked
    return Reading(searched, narrowed, asked, understood)


def _words_of(phrases: Sequence[Phrase]) -> list[str]:
    return [value for phrase in phrases if phrase.kind != "without" for value in phrase.values if value]


def as_filters(phrase: Phrase) -> dict[str, Any]:
    """Return what a phrase states, in the form of `filters` of a request."""
    return {name: value for name, value in msgspec.to_builtins(_filters(phrase)).items() if value}


def _filters(phrase: Phrase) -> Filters:
    values = [value for value in phrase.values if value is not None]
    match phrase.kind:
        case "source":
            return Filters(source_types=values)
        case "type":
            return Filters(mime_types=values)
        case "author":
            return Filters(authors=values)
        case "channel":
            tags = {"channel": values if len(values) > 1 else values[0]}
            return Filters(source_types=[SourceName.SLACK.value], tags=tags)
        case "place":
            return Filters(collection_ids=values)
        case "without":
            return Filters(without=values)
        case "date":
            first, last = phrase.values
            field = "created_at" if phrase.field == "created_at" else "modified_at"
            return Filters(date_range=DateRange(first, last, field))


def _both(one: Narrowing, other: Narrowing) -> Narrowing | None:
    """Return the filters that hold where both do; None if that is nowhere, or cannot be said."""
    lists: dict[str, tuple[str, ...]] = {}
    for name in ("source_types", "mime_types", "authors", "collection_ids"):
        mine, theirs = getattr(one, name), getattr(other, name)
        lists[name] = tuple(value for value in mine if value in theirs) if mine and theirs else mine or theirs
        if mine and theirs and not lists[name]:
            return None
    tags = dict(one.tags)
    for key, values in other.tags:
        tags[key] = tuple(value for value in tags[key] if value in values) if key in tags else values
        if not tags[key]:
            return None
    dated = one
    if other.since or other.before:
        if (one.since or one.before) and one.field != other.field:
            return None
        since = max((day for day in (one.since, other.since) if day), default=None)
        before = min((day for day in (one.before, other.before) if day), default=None)
        if since and before and since >= before:
            return None
        dated = one._replace(field=other.field, since=since, before=before)
    without = tuple(dict.fromkeys((*one.without, *other.without)))
    return dated._replace(**lists, tags=tuple(sorted(tags.items())), without=without)
