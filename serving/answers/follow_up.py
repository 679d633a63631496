"""Find what a question that follows others is about, without a language model. Pure.

A question that names its own subject is searched by itself, whatever was asked before. One that does not ("and in 2023?", "who approved
it?") borrows the subject of the question before it. English, but for parts such as "Und in Hamburg?": other questions of another language
are searched by themselves unless they have no content.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from serving.answers.schemas import Message
from serving.answers.words import ASKING, content
from serving.search.retrieval.query import MAX_QUERY, normalise

Leaning = Literal["no", "perhaps", "surely"]

_LEAD = re.compile(
    r"^\W*(?:(?:and|but|or|so|also|then|ok|okay|thanks|thank you|well|now|next|sorry|please|hm+"
    r"|und|aber|oder|et|mais|y(?=\s+(?:a|con|de|el|en|la|las|los|para|por)\b))\b[\s,.!:–-]*)+",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:\W*\b(?:ok(?:ay)?|great|perfect|cool|nice|thanks|thank you|thx|cheers|a lot|so much|very much|danke|vielen dank|sehr|schön"
    r"|merci|beaucoup|gracias|muchas)\b)+\W*",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"^\W*(?:what|how) about\b|^\W*(?:the )?same (?:question )?(?:for|with)\b|^\W*(?:instead|what if)\b", re.IGNORECASE
)
_ASKS = (
    "who|whom|whose|what|which|when|where|why|how|is|are|was|were|am|do|does|did|can|could|may|might|must|shall|should|will|"
    "would|has|have|had|list|name|show|give|tell|explain|describe|summari[sz]e|compare|find|translate|recommend"
)
_CLAUSE = re.compile(
    rf"^\W*(?:(?:in|for|at|on|by|to|from|since|until|with|of|under)\s+)?(?!may\W*(?:\d|$))(?:{_ASKS})\b", re.IGNORECASE
)
_PREPOSITIONS = "in|for|at|on|by|to|from|since|until|with|of|about|under|over|after|before|during|per|as|without|within"
_ASKS_ABROAD = re.compile(
    rf"\b(?:{'|'.join(sorted(ASKING))})\b|^\W*(?:wo|ist|sind|gibt|gilt|habe?n?|hat|kann|können|darf|dürfen|muss|müssen|soll|sollen|wird|werden"
    r"|bekomm\w+|est|ai|avons|peut|peux|doit|dois|faut)\b",
    re.IGNORECASE,
)
_PREPOSED = re.compile(rf"^\W*({_PREPOSITIONS})\b\s*(.+)$", re.IGNORECASE)
_DETERMINED = re.compile(r"\b(?:the|an?|our|my|your|every|each|any|all|some|no)\s+(?:\w+\s+)?\w{2,}", re.IGNORECASE)
_THING = re.compile(
    r"\b(?:it|its|(?:which|another|the|that|this|any) ones?|ones|the (?:former|latter|same)|(?:how|when|do|get|go) there)\b"
    r"|\b(?:this|that|these|those)(?=\s*(?:[?.,!]|$)|\s+(?:is|are|was|were|do|does|did|can|may|must|mean|cost|apply|work|include|happen|take|last|true)s?\b)"
    r"|\b(?:is|are|was|were|do|does|did|can|may|must|should|will|would)\s+(?:this|that|these|those)\b(?!\s+\w*(?:year|month|week|quarter|day|time))"
    r"|\b(?:this|that|these|those)\s+(?!\w*(?:year|month|week|quarter|day|morning|afternoon|evening|summer|winter|autumn|spring|time))\w+\s*(?:\?|$)",
    re.IGNORECASE,
)
_THEY = re.compile(r"\b(?:they|them|their|theirs)\b", re.IGNORECASE)
_PERSON = re.compile(r"\b(?:he|him|his|she|her|hers)\b", re.IGNORECASE)
_EXPLETIVE = re.compile(
    r"\b(?:is|was|does|will|would|can|may|could|should)\s+it\s+(?:\w+\s+){0,3}?(?:to|that|for|if|when)\b", re.IGNORECASE
)
_FULL_NAME = re.compile(r"\b[A-ZÀ-Þ][\wÀ-ÿ'’-]+(?: [A-ZÀ-Þ][\wÀ-ÿ'’-]+)+")
_INSIDE = re.compile(r"(?<=\S\s)[A-ZÀ-Þ][\w'’-]*|\b\w*\d[\w-]*")
"""Names and numbers: what begins with a capital after the first word, or holds a digit."""
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_PERIOD = re.compile(
    rf"\b(?:(?:19|20)\d\d|q[1-4]|(?:last|this|next) (?:year|month|week|quarter)|{_MONTHS})\b", re.IGNORECASE
)
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_QUANTITY = re.compile(r"\b\d[\d.,]*\s*(per cent|percent|%|[^\W\d_]+)", re.IGNORECASE)
_DATE = re.compile(rf"\b(?:\d{{1,2}}\.? (?:{_MONTHS})|(?:{_MONTHS}) \d{{1,2}})\b(?:,? (?:19|20)\d\d\b)?", re.IGNORECASE)
_YEAR = re.compile(r",? (?:19|20)\d\d$")
_SIDE = rf"\b(?:{_PREPOSITIONS}|above|below|beyond|(?:less|more|fewer|longer|shorter|higher|lower) than|at least|at most|up to)\s+"
"""What stands before a figure or date and says on which side of it."""
_QUESTION_WORDS = re.compile(
    rf"^\W*(?:(?:{_PREPOSITIONS})\s+)?(?:(?:{_ASKS})\b\s*)(?:(?:much|many|long|often|far|soon|quickly|fast|old|big|large|high)\b\s*)?"
    r"(?:(?:is|are|was|were|do|does|did|can|could|may|might|must|should|will|would|has|have|had|me|us)\b\s*)*"
    r"(?:(?:i|we|you|they|it|there|he|she)\b\s*)?(?:(?:get|have|find|do|know|need)\b\s*)?",
    re.IGNORECASE,
)
_BARE = re.compile(r"^\W*(?:(?:since|until|by|from) )?(?:how|when|where|why|who|which) ?\w*\W*$", re.IGNORECASE)
"""A question word, and at most one more word: "how fast?"."""
_PLACE = re.compile(
    r"\b(?:in|for|at|from|to|of)\s+(?:the\s+)?[A-ZÀ-Þ][\w'’-]*(?:\s+(?:of\s+)?(?:[A-ZÀ-Þ][\w'’-]*|north|south|east|west))*"
)
_EDGES = " \t?!.,;:…–-"


class FollowUp(NamedTuple):
    """What is searched for a question, and whether it leans on the one before: `perhaps` if it may mean either."""

    searched: str
    leans: Leaning


def follow_up(question: str, earlier: Sequence[Message]) -> FollowUp:
    """Return the question with the subject that it borrows from earlier messages, the latest last."""
    before, said, thanked = "", "", False
    for message in earlier:
        if message.role == "user":
            thanked = _THANKS.fullmatch(message.content) is not None
        if thanked:  # the reply to thanks answers no question either
            continue
        if message.role == "user":
            own = " ".join(message.content.split())[: MAX_QUERY // 2]
            before = _with_subject(own, before, said) if before and leaning(own) == "surely" else own
            said = ""
        elif message.role == "assistant":
            said = message.content
    leans: Leaning = leaning(question) if before else "no"
    if leans == "no":
        return FollowUp(question, "no")
    searched = normalise(_with_subject(question, before, said)[:MAX_QUERY])
    return FollowUp(searched, leans if searched != question else "no")


def leaning(question: str) -> Leaning:
    """Return whether a question needs the subject of another one. Thanks need none."""
    if _THANKS.fullmatch(question):
        return "no"
    own = _LEAD.sub("", question)
    led = own != question
    words = content(own)
    if not words or _BARE.match(own) or _refers(own):
        return "surely"
    if _ABOUT.search(own):
        return "surely"
    if not _CLAUSE.search(own):
        if _PREPOSED.search(own) or (led and not _ASKS_ABROAD.search(own)):
            return "surely"
        named = _INSIDE.search(own) and not all(map(_is_identifier, own.split()))
        return "perhaps" if len(own.split()) <= 4 and not named else "no"
    if _INSIDE.search(own):
        return "no"
    return "perhaps" if len(words) <= (2 if led else 1) else "no"


def _refers(question: str) -> bool:
    """Return True if a pronoun stands for something that the question does not name before it."""
    plain = _EXPLETIVE.sub(" ", question)
    for pronouns, names, plurals in ((_THING, False, False), (_THEY, True, True), (_PERSON, True, False)):
        for pronoun in pronouns.finditer(plain):
            before = plain[: pronoun.start()]
            if not (
                _DETERMINED.search(before)
                or (names and _INSIDE.search(before))
                or (plurals and any(word.endswith("s") and content(word) for word in before.split()))
            ):
                return True
    return False


def _with_subject(question: str, before: str, said: str) -> str:
    """Return the question, completed by what the question before and the answer to it name."""
    own = _ABOUT.sub("", _LEAD.sub("", question)).strip(_EDGES) or question
    if not _CLAUSE.search(own) and content(own):
        return _replaced(before, own)
    person = _FULL_NAME.search(said) if _PERSON.search(own) else None
    name = " ".join(person[0].split()[-2:]) if person else ""
    named = f"{name} " if name not in before else ""
    return f"{own}? {named}{_subject(before)}"


def _replaced(before: str, part: str) -> str:
    """Return the question before with a part in place of its like: a year for a year, "in Norway" for "in Sweden"."""
    stem = before.rstrip(_EDGES)
    if (measured := _measured(stem, part)) is not None:
        return measured
    for pattern in (_PERIOD, _WEEKDAY):
        if (new := pattern.search(part)) and len(found := pattern.findall(stem)) == 1:
            if content(part) <= content(new[0]):
                return stem.replace(found[0], new[0]) + "?"
            stem = " ".join(stem.replace(found[0], " ").split())
    preposed = _PREPOSED.match(part)
    if preposed:
        like = re.compile(
            rf"\b{preposed[1]}\s+(?:(?:the|an?|our|my)\s+)?(?:(?!(?:{_PREPOSITIONS}|and|or)\b)[\w'’-]+\s*)+",
            re.IGNORECASE,
        )
        found = [one for one in like.finditer(stem) if not _PERIOD.search(one[0])]
        if not found and _INSIDE.search(part):
            found = list(_PLACE.finditer(stem))
        if len(found) == 1:
            return " ".join(f"{stem[: found[0].start()]}{part} {stem[found[0].end() :]}".split()) + "?"
        return f"{stem} {part}?"
    names = list(_INSIDE.finditer(stem))
    alike = _is_name(part) or (_is_identifier(part) and len(names) == 1 and _is_identifier(names[0][0]))
    if len(names) == 1 and alike and not _PERIOD.search(names[0][0]):
        return stem[: names[0].start()] + part + stem[names[0].end() :] + "?"
    return f"{stem}: {part}?"


def _measured(stem: str, part: str) -> str | None:
    """Return the question before with another figure or date, or with another side of it: "under 500 EUR" for "over 500 EUR"."""
    for pattern in (_DATE, _QUANTITY, _PERIOD):
        new = re.fullmatch(rf"({_SIDE})?{pattern.pattern}", part, re.IGNORECASE)
        like = re.compile(rf"({_SIDE})?{pattern.pattern}" if new and new[1] else rf"(){pattern.pattern}", re.IGNORECASE)
        found = [one for one in like.finditer(stem) if new and one.groups()[1:] == new.groups()[1:]]
        if len(found) == 1 and found[0][0] != part and (found[0][1] or pattern is not _PERIOD):
            year = _YEAR.search(found[0][0]) if pattern is _DATE and not _YEAR.search(part) else None
            return f"{stem[: found[0].start()]}{part}{year[0] if year else ''}{stem[found[0].end() :]}?"
    return None


def _is_name(part: str) -> bool:
    return all(word[:1].isupper() for word in part.split())


def _is_identifier(part: str) -> bool:
    return any(map(str.isdigit, part)) and not any(map(str.isspace, part))


def _subject(question: str) -> str:
    """Return a question without its question words."""
    own = _LEAD.sub("", question).strip(_EDGES)
    return _QUESTION_WORDS.sub("", own, count=1).strip(_EDGES) or own
