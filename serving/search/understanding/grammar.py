"""The filters that a question states, by rules: a source, file types, authors, a Slack channel, and when.

A rule needs words that speak of documents ("the spreadsheet about", "what did Marta write", "from Drive"), since the same words can be
what a question is about: "How do I mute a channel in Slack?", "What caused the delay on 11 February?". In doubt nothing is understood.
Names of people and of channels are understood only if they are among the `Names` given, which are those that the caller may read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import chain

from resources.sources.spec import SourceSpec
from serving.search.retrieval.known import CURLY
from serving.search.understanding.dates import DateExpression, dates
from serving.search.understanding.people import by_author, in_channel
from serving.search.understanding.phrases import Kind, Names, Phrase
from serving.search.understanding.words import (
    ABOUT,
    ADDED,
    AMBIGUOUS,
    AND_ALSO,
    ANY_TYPE,
    DONE,
    ENDS,
    GENERIC,
    INSTRUCTIONS,
    JOINED,
    NEGATED,
    NOUN,
    OR_ELSE,
    QUESTION,
    REQUEST,
    SAID,
    SAY,
    STARTS,
    STRONG,
    THING,
    TYPE_HINT,
    TYPES,
    OtherValues,
)

_TYPES = rf"(?:{ANY_TYPE})(?:{AND_ALSO}(?:{ANY_TYPE}))*"

_TYPE = re.compile(
    rf"{STARTS}(?P<modifiers>(?:[\w-]+\s+){{0,3}}?)(?P<all>{_TYPES}){ENDS}"
    rf"|\b(?:in|from)\s+(?:the|a|an|any|our|my|which)\s+(?:[\w-]+\s+){{0,2}}?(?P<inside>{_TYPES}){ENDS}"
    r"|\b(?:as|in|only)\s+(?:a\s+)?(?P<format>pdfs?|csv)(?:\s+format)?\s*[?.!]?$",
    re.IGNORECASE,
)
_OTHER_TYPES = OtherValues(rf"(?:[\w-]+\s+)?(?!(?:page|sheet|slide)s?\s+\d){THING}")
"""Pages are none if they have a number."""
_HEAD = re.compile(rf"{STARTS}(?:[\w-]+\s+){{0,2}}?{THING}\b{ENDS}", re.IGNORECASE)
_DOCUMENTS = re.compile(
    rf"{STARTS}(?:[\w-]+\s+){{0,3}}?{THING}\b|\b(?:anything|everything|something)\b|\b(?:{SAY}|{SAID}|{DONE})\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(rf'"[^"]+"|{CURLY}')
"""What is quoted is searched for as it stands."""
_AFTER_THING = re.compile(rf"\b{THING}\s*$", re.IGNORECASE)
_AFTER_VERB = re.compile(rf"\b{DONE}\s+$", re.IGNORECASE)


def _source_names(specs: Iterable[SourceSpec]) -> dict[str, str]:
    """Return the names that people use for each source. A name that is a common word, such as Files, must have its capital."""
    found: dict[str, str] = {}
    for spec in specs:
        names = {
            spec.label,
            spec.name.replace("_", " "),
            *(alias.replace("_", " ") for alias in spec.aliases),
            spec.label.split()[-1],
        }
        for name in names:
            common = GENERIC.fullmatch(name) and name.lower() != "uploads"
            if not common:
                found[re.escape(name.lower())] = spec.name.value
            elif name == spec.label and name.endswith("s"):
                found[f"(?-i:{re.escape(name)})"] = spec.name.value
    return dict(sorted(found.items(), key=lambda one: -len(one[0])))


class Grammar:
    """The rules, for the sources that are installed."""

    def __init__(self, specs: Iterable[SourceSpec]) -> None:
        self._sources = _source_names(specs)
        one = "|".join(self._sources)
        name = rf"(?P<names>(?:{one})(?:{AND_ALSO}(?:{one}))*)"
        self._name = re.compile(one, re.IGNORECASE)
        self._hint = re.compile(rf"\b(?:{one})\b", re.IGNORECASE)
        self._others = OtherValues(one)
        self._from = re.compile(
            r"(?P<before>^|,\s*|\b\w+\s+)"
            rf"(?P<all>(?:only\s+)?(?P<word>in|on|from|within|across)\s+(?:(?:our|my)\s+)?{name}){ENDS}",
            re.IGNORECASE,
        )
        self._of_source = re.compile(
            rf"(?:{STARTS}|\b(?:in|from)\s+(?:our\s+|the\s+)?)(?P<all>{name}\s+{NOUN}){ENDS}", re.IGNORECASE
        )
        self._uploads = (
            re.compile(rf"{STARTS}(?P<all>(?P<names>uploads)){ENDS}", re.IGNORECASE)
            if "uploads" in self._sources
            else None
        )

    def phrases(self, text: str, today: date, kinds: Sequence[Kind], names: Names) -> list[Phrase]:
        """Return what is understood, at most one phrase of each kind, in order.

        Words that may be a name or something else, such as "from June", are not a name.
        """
        text = _QUOTED.sub(lambda match: "~" * len(match.group()), text)
        found: list[Phrase] = []
        days = list(dates(text, today))

        def add(phrase: Phrase | None) -> None:
            if phrase is not None and not NEGATED.search(text[: phrase.start]) and not OR_ELSE.match(text, phrase.end):
                found.append(phrase)

        add(in_channel(text, names))
        add(by_author(text, names, of_documents=bool(found or (names.authors and _DOCUMENTS.search(text)))))
        add(_of_type(text))
        add(self._from_source(text, found, days))
        add(_dated(text, found, days))
        claimed = [range(one.start, one.end) for one in found if one.kind in ("source", "date")]
        found = [one for one in found if one.kind != "author" or not any(one.start in words for words in claimed)]
        return sorted((one for one in found if one.kind in kinds), key=lambda one: one.start)

    def _from_source(self, text: str, found: Sequence[Phrase], days: Sequence[DateExpression]) -> Phrase | None:
        if not self._hint.search(text) or INSTRUCTIONS.match(text):
            return None
        nouns = (rule.search(text) for rule in (self._of_source, self._uploads) if rule is not None)
        match = noun = next(filter(None, nouns), None)
        if noun is None:
            match = next((one for one in self._from.finditer(text) if _anchored(text, one, found, days)), None)
        if match is None or self._others.around(text, *match.span("all")):
            return None
        if noun is not None and _OTHER_TYPES.around(text, *noun.span("all")):
            return None
        return Phrase("source", *match.span("all"), self._named(match["names"]))

    def _named(self, text: str) -> tuple[str, ...]:
        found = (one.group() for one in self._name.finditer(text))
        return tuple(
            dict.fromkeys(
                source
                for name in found
                for key, source in self._sources.items()
                if re.fullmatch(key, name, re.IGNORECASE)
            )
        )


def _anchored(text: str, match: re.Match[str], found: Sequence[Phrase], days: Sequence[DateExpression]) -> bool:
    """Return True if a source's name says where documents come from, not what the question is about."""
    before, word = match["before"], match["word"].lower()
    if not before.strip() or before.lstrip().startswith(","):
        return True
    if word == "on" and ABOUT.fullmatch(before):
        return False
    if word == "from" and not QUESTION.search(text) and not GENERIC.fullmatch(match["names"]):
        return True
    follows = any(not text[match.end() : one.start].strip(" ,") for one in days if one.start >= match.end())
    return bool(found or follows or _DOCUMENTS.search(text))


def _of_type(text: str) -> Phrase | None:
    if not TYPE_HINT.search(text) or INSTRUCTIONS.match(text):
        return None
    match = _TYPE.search(text)
    if match is None:
        return None
    group = next(name for name in ("all", "inside", "format") if match[name])
    if _OTHER_TYPES.around(text, *match.span(group)):
        return None
    each = re.split(AND_ALSO, match[group], flags=re.IGNORECASE)
    if group != "format" and any(map(AMBIGUOUS.fullmatch, each)):
        asked = re.match(REQUEST, text, re.IGNORECASE)
        of = re.match(r"\s+of\b", text[match.end() :])
        if group == "inside" or match.start("modifiers") == 0 or (of and not (asked and asked.end())):
            return None
    found = [types for one in each for words, types in TYPES.items() if re.fullmatch(words, one, re.IGNORECASE)]
    return Phrase("type", *match.span(group), tuple(dict.fromkeys(chain(*found))))


def _dated(text: str, found: Sequence[Phrase], days: Sequence[DateExpression]) -> Phrase | None:
    for one in days:
        verb = _AFTER_VERB.search(text[: one.start])
        begin = verb.start() if verb else one.start
        if not one.of and _says_when(text, one, begin, verb.group() if verb else "", found):
            values = tuple(None if day is None else day.isoformat() for day in (one.first, one.last))
            field = "created_at" if verb and ADDED.match(verb.group()) else "modified_at"
            return Phrase("date", begin, one.end, values, field)
    return None


def _says_when(text: str, days: DateExpression, begin: int, verb: str, found: Sequence[Phrase]) -> bool:
    """Return True if a date says when documents were written, not what they are about."""
    between = (text[one.end : begin] if one.end <= begin else text[days.end : one.start] for one in found)
    if any(JOINED.fullmatch(gap) for gap in between):
        return True
    asks = bool(_HEAD.match(text))
    if verb and (asks or STRONG.match(verb)):
        return True
    if INSTRUCTIONS.match(text):
        return False
    if _AFTER_THING.search(text[: days.start]):
        return not text[days.start :].lower().startswith("on ")
    ends = not text[days.end :].strip(" ?.!")
    return days.plain and ends and (asks or bool(found))
