"""Filters that a query states as operators: `type:pdf`, `from:marta`, `in:handbook`, `-draft`.

They are what the person typed on purpose, so they hold even if nothing is left. A name that no document of the caller has finds nothing,
whether or not it exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from resources.core.filetypes import MIME_TYPES
from resources.core.spelling import LETTER
from resources.sources.spec import SourceSpec
from serving.search.retrieval.known import QUOTED
from serving.search.understanding.lookup import plain
from serving.search.understanding.people import called
from serving.search.understanding.phrases import Kind, Names, Phrase
from serving.search.understanding.words import OPERATOR_TYPES, TYPES

_OPERATOR = re.compile(
    r"(?<!\S)(?:(?P<name>type|from|in):(?P<value>\"[^\"]+\"|[^\s\"]\S*)"
    rf"|-(?P<without>\"[^\"]+\"|[^\W\d_](?:{LETTER}|['’.-])+))(?!\S)",
    re.IGNORECASE,
)
_QUOTED = re.compile(rf"(?<![:-]){QUOTED}")
_SUSPENDED = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "et", "ou", "of", "y", "e", "o"})
"""Words after which a hyphen stands for the beginning of a word: `Reinigung und -wartung`."""
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+")


class Operators:
    """Reads operators, for the sources that are installed."""

    def __init__(self, specs: Iterable[SourceSpec]) -> None:
        self._sources: Mapping[str, str] = {
            name.lower().replace(" ", "_"): spec.name.value
            for spec in specs
            for name in (spec.name.value, spec.label, spec.label.split()[-1], *spec.aliases)
        }

    def phrases(self, text: str, kinds: Sequence[Kind], names: Names, me: Sequence[str] = ()) -> list[Phrase]:
        """Return the operators in order. Those of one kind have the values of all of them, any of which may match.

        `me`: what the caller is called as an author, for `from:me`.
        """
        text = blanked(text, (match.span() for match in _QUOTED.finditer(text)))
        found = [phrase for match in _OPERATOR.finditer(text) if (phrase := self._phrase(match, names, me)) is not None]
        found = [phrase for phrase in found if phrase.kind in kinds]
        values: dict[Kind, tuple[str | None, ...]] = {}
        for phrase in found:
            values[phrase.kind] = tuple(dict.fromkeys((*values.get(phrase.kind, ()), *phrase.values)))
        return [phrase._replace(values=values[phrase.kind]) for phrase in found]

    def _phrase(self, match: re.Match[str], names: Names, me: Sequence[str]) -> Phrase | None:
        value = (match["value"] or match["without"]).strip('"').strip()
        source = self._sources.get(value.lower().replace("-", "_").replace(" ", "_"))
        kind: Kind
        if match["without"]:
            if not _excludes(match):
                return None
            kind, values = "without", (value,)
        elif match["name"].lower() == "type":
            kind, values = "type", _types(value)
        elif source is not None:
            kind, values = "source", (source,)
        elif match["name"].lower() == "from" and value.lower() == "me" and me:
            mine = set(map(plain, me))
            kind, values = "author", tuple(sorted({*me, *(one for one in names.authors if plain(one) in mine)}))
        elif match["name"].lower() == "from":
            kind, values = "author", tuple(sorted(called(value, names))) or (value,)
        elif value.startswith("#") or value.lower() in names.channels:
            kind, values = "channel", (value.removeprefix("#").lower(),)
        else:
            kind, values = "place", (value, *sorted(names.folders.get(value.casefold(), frozenset()) - {value}))
        return Phrase(kind, *match.span(), values, operator=True) if values and value else None


def stated(text: str) -> set[str]:
    """Return the names of the operators that the text may hold."""
    return {match["name"].lower() for match in _OPERATOR.finditer(text) if match["name"]}


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with spaces for some of its characters."""
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _excludes(match: re.Match[str]) -> bool:
    """Return True if a word with a hyphen is left out, and is no half of a word and no option of a command: `java -jar fails`."""
    if match["without"].startswith('"'):
        return re.search(r"\w", match["without"]) is not None
    before, after = match.string[: match.start()], match.string[match.end() :]
    last = next(reversed(before.split()), "")
    if last.endswith("-") or last.rstrip(".").lower() in _SUSPENDED or after.rstrip().endswith("?"):
        return False
    return any(not _OPERATOR.sub("", side).strip() for side in (before, after))


def _types(name: str) -> tuple[str, ...]:
    """Return the MIME types that a name stands for; none for a word that is no type."""
    if _MIME.fullmatch(name):
        return (name.lower(),)
    if (mime := MIME_TYPES.get(f".{name.lower().removeprefix('.')}")) is not None:
        return (mime,)
    named = {**TYPES, **OPERATOR_TYPES}
    return next((types for words, types in named.items() if re.fullmatch(words, name, re.IGNORECASE)), ())
