"""The rules for names: who wrote something, and in which Slack channel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from resources.core.spelling import LETTER
from serving.search.understanding.lookup import plain
from serving.search.understanding.phrases import Names, Phrase
from serving.search.understanding.words import AND_ALSO, DONE, ENDS, QUESTION, SAID, SAY, STARTS, THING, OtherValues

MOST_AUTHORS = 20
"""A first name that more authors share says too little."""
_WORD = rf"[^\W\d_](?:{LETTER}|-)*"
_FIRST_LAST = rf"{_WORD}(?:\s+{_WORD})?"
PERSON = rf"(?P<name>[^\W\d_](?:{LETTER}|['’.@-])*(?:\s+[^\W\d_](?:{LETTER}|['’-])*){{0,2}})"


class _Rule(NamedTuple):
    """`pattern` has the groups `lead`, `name` and `tail`; `ends`: the name is the end of its group, not the begin."""

    pattern: re.Pattern[str]
    ends: bool = False


_RULES = [
    _Rule(
        re.compile(
            rf"(?P<lead>\b(?:did|has|have|had)\s+){PERSON}(?P<tail>\s+(?:ever\s+)?(?:{SAY}|{SAID}|written))\b",
            re.IGNORECASE,
        )
    ),
    _Rule(
        re.compile(
            rf"(?:\b{THING}\s+(?:(?:that|which)\s+)?(?:(?:was|were|has been|have been|been)\s+)?(?P<lead>{DONE}\s+by\s+)"
            rf"|(?P<strong>\b(?:written|authored|uploaded|posted)\s+by\s+)){PERSON}(?P<tail>)",
            re.IGNORECASE,
        )
    ),
    _Rule(
        re.compile(rf"(?P<lead>)(?<!{LETTER})(?P<name>{_FIRST_LAST})(?P<tail>\s+{SAID})\b", re.IGNORECASE), ends=True
    ),
    _Rule(
        re.compile(rf"(?P<lead>)(?<!{LETTER})(?P<name>{_FIRST_LAST})(?P<tail>['’]s?)\s+{THING}\b{ENDS}", re.IGNORECASE),
        ends=True,
    ),
]
_EVENT = re.compile(r"\s*(?:when|why|where|how|who)\b", re.IGNORECASE)
"""Verbs of questions about a person's deeds, which others may have written down: the first rule does not apply to them."""
_CAPITAL = [
    _Rule(re.compile(rf"(?P<before>\S+\s+)?(?P<lead>\b[Bb]y\s+){PERSON}(?P<tail>)")),
    _Rule(re.compile(rf"\b(?P<before>(?i:{THING})\s+)(?P<lead>from\s+){PERSON}(?P<tail>)")),
]
"""Rules that hold for a capitalised name only, in a text that speaks of documents."""
_HINT = re.compile(rf"\bby\b|\bfrom\b|['’]|\b(?:{SAID}|{SAY})\b", re.IGNORECASE)
_PARTICIPLE = re.compile(
    r"(?:\w+ed|\w+en|led|run|made|held|set|kept|paid|sold|bought|built|done|won|lost|found|drawn|known|meant|put|cut|hit|stand|stop|go|come"
    r"|is|are|was|were|be|being|up|down|rise|fall)\s+",
    re.IGNORECASE,
)
"""Before "by", these say who did something, not who wrote a document."""
_LETTERS = re.compile(rf"(?:(?![\d_]){LETTER})+")
_CHANNELS = re.compile(
    rf"(?:\b(?:in|on|from|to) )?(?<![\w#&/])#(?P<tag>{_WORD})(?P<more>(?:{AND_ALSO}#{_WORD}){{0,9}})(?: channels?\b)?"
    rf"|\b(?:in|on|from) the (?P<name>{_WORD}) channel\b|\b(?:in|on|from) channel (?P<other>{_WORD})",
    re.IGNORECASE,
)
_TAG = re.compile(rf"#({_WORD})")
_OTHER_CHANNELS = OtherValues(rf"#{_WORD}|(?:the )?{_WORD} channel|channel {_WORD}")
_NEXT = re.compile(r"\s*(?P<joint>[,/])?\s*['\"’‘“]*(?P<word>[^\W\d_]\.|\w[\w'’]*)")
"""The next word, or an initial."""
_LISTED = re.compile(rf"(?:[,/&]|\b(?:and|or)\b)\s*({_WORD})", re.IGNORECASE)
_PARTICLES = frozenset("al bin da de del della den der di dos du el ibn la le van von zu zum zur".split())  # noqa: SIM905
_PREVIOUS = re.compile(r"(?<![\w'’.-])[^\W\d_][\w'’.-]*(?<!\w\w\.)\s+$")
"""The previous word, unless it ends a sentence or is a title, such as Dr."""
_NO_NAME = re.compile(
    rf"(?:{QUESTION.pattern}(?:['’]s)?|{THING}|in|on|from|about|to|\w+day|summari[sz]e|compare|explain|describe|translate|read|check|use)\s+|{STARTS}",
    re.IGNORECASE,
)
"""What may stand before a last name with a capital, at the beginning of a text."""
_ADVERBS = re.compile(r"(?:\s+(?:ever|also|just|already|really|actually|recently))*", re.IGNORECASE)
_PHRASE_ENDS = re.compile(
    rf"\s*,?+{_ADVERBS.pattern}(?:{ENDS}|\s+(?:to|into|at|via|through|as|when|while|but|is|are|do|does|can|should|i|we|you)\b)",
    re.IGNORECASE,
)


def words_of(author: str) -> frozenset[str]:
    """Return the words of a name, lower case and without accents; of an email those before the @."""
    return frozenset(_LETTERS.findall(plain(author.partition("@")[0])))


def may_hold_names(text: str) -> bool:
    """Return True if the text may name an author or a channel."""
    if _HINT.search(text) and any(rule.pattern.search(text) for rule in (*_RULES, *_CAPITAL)):
        return True
    return ("#" in text or "channel" in text.lower()) and bool(_CHANNELS.search(text))


def in_channel(text: str, names: Names) -> Phrase | None:
    """Return the channels that the text names."""
    if not names.channels:
        return None
    for match in _CHANNELS.finditer(text):
        first = match["tag"] or match["name"] or match["other"]
        found = tuple(dict.fromkeys(map(str.lower, [first, *_TAG.findall(match["more"] or "")])))
        if names.channels.issuperset(found) and not _OTHER_CHANNELS.around(text, *match.span()):
            return Phrase("channel", *match.span(), found)
    return None


def by_author(text: str, names: Names, *, of_documents: bool) -> Phrase | None:
    """Return the authors that the text names. `of_documents`: it speaks of documents, so that "by Marta" says who wrote them."""
    if not names.authors:
        return None
    for rule in _RULES[_EVENT.match(text) is not None :]:
        for match in rule.pattern.finditer(text):
            if (phrase := _author(text, match, names, ends=rule.ends)) is not None:
                return phrase
    if not of_documents or text.isupper():
        return None
    for rule in _CAPITAL:
        for match in rule.pattern.finditer(text):
            if not match["name"][0].isupper() or _PARTICIPLE.fullmatch(match["before"] or ""):
                continue
            if (phrase := _author(text, match, names, ends=False)) is not None:
                return phrase
    return None


def _author(text: str, match: re.Match[str], names: Names, *, ends: bool) -> Phrase | None:
    """Return the authors that a match names, by as many of its words as are a name."""
    words = [one.span() for one in re.finditer(r"\S+", text[: match.end("name")]) if one.start() >= match.start("name")]
    for count in range(len(words), 0, -1):
        chosen = words[-count:] if ends else words[:count]
        begin = chosen[0][0]
        name = text[begin : chosen[-1][1]].rstrip(".,;:?!")
        end = begin + len(name)
        if not (holders := called(name, names)):
            continue
        if ends:
            longer = len(chosen) == 1 and not _first_name(name, holders) and _began_before(text, begin)
        elif match["tail"]:
            longer = not _ADVERBS.fullmatch(text, end, match.start("tail"))
        else:
            longer = _goes_on(text, name, end, names)
        if longer or len(holders) > MOST_AUTHORS or _among_others(text, begin, end):
            return None
        lead = next((one for one in ("lead", "strong") if match.groupdict().get(one)), None)
        start = match.start(lead) if lead else begin
        return Phrase("author", start, match.end("tail") if match["tail"] else end, tuple(sorted(holders)))
    return None


def called(name: str, names: Names) -> list[str]:
    """Return the authors who have this name, or all of its words in theirs. A single letter is no name."""
    name = plain(name)
    wanted = frozenset(_LETTERS.findall(name))
    says = any(len(word) > 1 for word in wanted)
    return [author for author, words in names.authors.items() if plain(author) == name or (says and wanted <= words)]


def _among_others(text: str, begin: int, end: int) -> bool:
    """Return True if a name is one of several: a filter on it alone would be another question."""
    after = re.match(r"\s*(?:(?:and|or)\b|&)", text[end:], re.IGNORECASE)
    before = re.search(r"(?:\b(?:and|or|either)\s|[&/])\s*$", text[:begin], re.IGNORECASE)
    return bool(after or before)


def _first_name(name: str, authors: Iterable[str]) -> bool:
    """Return True if an author's name begins with this one."""
    return any(plain(author).startswith(plain(name)) for author in authors)


def _began_before(text: str, begin: int) -> bool:
    """Return True if a last name follows a first name."""
    before = _PREVIOUS.search(text[:begin])
    return before is not None and before[0][0].isupper() and not _NO_NAME.fullmatch(before[0])


def _goes_on(text: str, name: str, end: int, names: Names) -> bool:
    """Return True if a name is the beginning of a longer one or of a list, or whose something is.

    After a name of several words, only a list of authors goes on. After one word in lower case, the phrase must end.
    """
    if name.endswith(("'s", "’s")):
        return True
    after = _NEXT.match(text, end)
    if len(words_of(name)) > 1:
        listed = set(map(plain, _LISTED.findall(text, end))) if after and after["joint"] else set[str]()
        return any(not listed.isdisjoint(words) for words in names.authors.values())
    if not name[0].isupper():
        return not _PHRASE_ENDS.match(text, end)
    if after is None:
        return False
    word = after["word"]
    capital = word[0].isupper() and (word.endswith(".") or any(map(str.islower, word)))
    return capital or (not after["joint"] and word in _PARTICLES)
