"""Compare texts by their content words, numbers, measures and negations. Pure.

The answer gate, the extractive answer and the check of an answer all use these functions, so that they agree on what the same word is.
"""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache

from resources.core.spelling import LETTER
from serving.search.retrieval.terms import terms

Measures = frozenset[tuple[str, str]]

_WORD = re.compile(rf"{LETTER}+(?:['’]{LETTER}+)?")
_NUMBER = r"(?:(?<![^\s(\[“„\"'=])(?<!\d\s)-(?=\d))?\d+(?:[.,]\d+)*"
"""A minus is none after a letter, a digit or a sign: 10-20, 10 %-20 %."""
_NUMBERS = re.compile(_NUMBER)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GERMAN = re.compile(
    r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3})+(?=,\d{1,2}\b(?![.,]\d)|\s*(?:€|(?:EUR|Euros?)\b))", re.IGNORECASE
)
"""A number whose full stops are between thousands: cents, or a currency that has no three decimals, follow. Others may be English."""
_GROUPED = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f’']\d{3})+(?!\d)")
_NO_DIGITS = re.compile(r"\D")
_SCALE = re.compile(r"(?:°|\bdegrees?) ?([CF])(?:elsius|ahrenheit)?\b", re.IGNORECASE)
_MINUS = re.compile(r"\u2212|\bminus\s+(?=\d)", re.IGNORECASE)
_MEASURE = re.compile(
    rf"(?<![\w.])({_NUMBER})(?:\s*(?:and|to|or|-|–)\s*({_NUMBER}))?[\s-]*(per cent|[^\W\d_]+|°[CF]?|%|€|\$|£)",
    re.IGNORECASE,
)
_PRICE = re.compile(rf"([€$£])\s*({_NUMBER})")
_HALF = re.compile(r"\b(\d+) and a half\b", re.IGNORECASE)
_UNITS: dict[str, str] = {
    "%": "percent", "per cent": "percent", "€": "euro", "$": "dollar", "£": "pound", "°": "degree", "°c": "degree celsius",
    "°f": "degree fahrenheit", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "mm": "millimetre",
    "cm": "centimetre", "km": "kilometre", "mg": "milligram", "g": "gram", "kg": "kilogram", "ml": "millilitre", "l": "litre",
    "kw": "kilowatt", "mw": "megawatt", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte",
}  # fmt: skip
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|cannot|without|unless|non"
    r"|nicht|kein\w*|nie(?:mals)?|ohne|weder|(?<!faux )pas|jamais|aucune?|sans(?![ -]serif))\b"
    r"|n['’]t\b|\bfail(?:s|ed)? to\b|不(?![仅僅但过過同锈鏽])|[没沒]|未(?![来來])|非(?![常洲])",
    re.IGNORECASE,
)
"""English, German, French and Chinese."""
_FIGURE, _PARTS = re.compile(r"\d"), re.compile(r"\d+|\D+")
_PREFIX = 5
"""Words that share a prefix of at least this many letters count as the same word: calibrating and calibration."""

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: value for value, word in enumerate(_ONES.split())} | {
    word: (index + 2) * 10 for index, word in enumerate(_TENS.split())
}
_SPELLED = re.compile(
    rf"\b(?:({_TENS.replace(' ', '|')})(?:[\s-]({'|'.join(_ONES.split()[1:10])}))?|({_ONES.replace(' ', '|')}))\b",
    re.IGNORECASE,
)

UNITS = frozenset[str]().union(
    *map(
        terms,
        """
        second minute hour daily day weekly week monthly month yearly annual annually year percent euro dollar pound degree
        millimetre centimetre metre kilometre millimeter centimeter meter kilometer mm cm km milligram gram kilogram kg millilitre
        milliliter litre liter volt watt kilowatt megawatt kwh ampere newton bar hertz millisecond byte kilobyte megabyte gigabyte
        terabyte celsius fahrenheit
        """.split(),  # noqa: SIM905 (a list of fifty quoted words says less)
    )
)
"""Stems of units. Numbers with different units never support each other."""
_DEGREE, _SCALES = terms("degree"), terms("celsius fahrenheit")
_SAME = {"annual": "year", "dail": "day", "mm": "millimetr", "cm": "centimetr", "km": "kilometr", "kg": "kilogram"}

STOPWORDS = frozenset(
    """
    a about according across after again all along also although among an and any anybody anyone anything are around as
    at available be because been before being below between both but by can could deal deals describe did do does doing
    down during each either every everybody exist exists explain far few for found from gave get gets give given gives
    got had has have he her here high him his how i if in into is it its just kind know known least less long many may
    me might more most much must my need needs no nor not now of off often on once one only or other our out over own
    per please quick quickly same shall she should since so some somebody someone something sort state stated such tell
    than that the their them then there these they thing things this those through to today too toward towards under
    until up upon us use via want wants was way ways we well were what what's when where which while who whom whose why
    will with within without would yes yet you your
    """.split()  # noqa: SIM905 (a list of two hundred quoted words says less)
)
"""Words that carry no content in a question or a claim."""
ASKING = frozenset(
    """
    wann warum welche welchem welchen welcher welches wem wen wer weshalb wessen wie wieso wieviel wieviele woher wohin wofür womit
    combien où pourquoi quand quel quelle quelles quels qui quoi
    """.split()  # noqa: SIM905
)
"""Words of a German or French question, one of which tells its language: none is an English word."""
ABROAD = frozenset(
    """
    aber alle allen aller als auch auf aus bei beim bekomme bekommen bekommt bis bitte brauche brauchen braucht dann das dass daß dazu dem
    der diese diesem diesen dieser dieses doch durch ein eine einem einen einer eines etwas für geht gibt gilt habe haben ich ihr ihre
    ihrem ihren ihrer ist jede jedem jeden jeder jedes kann können könnte lange lautet mein meine meinem meinen meiner mir muss muß müssen
    nach nicht noch nun nur oder ohne sein seine seiner sich sie sind soll sollen sollte sowie steht und uns unser unsere viel viele vom
    von vor wenn werde werden wird wir wurde wurden zum zur zwischen über wo
    aux avec avoir cela ces cet cette chez dans depuis dois doit donc elle elles être faire fait faut fois ils les leur leurs lors lui
    mais mes même nos notre nous ont pas peut peux puis que ses soit sont tes ton tous tout toute très trouve une vers vos votre vous
    """.split()  # noqa: SIM905
)
"""German and French words that carry no content, two of which tell the language."""
FALSE_FRIENDS = frozenset(
    """
    am an au bin comment den des die en est hat in la le man mit on pour par so son sur un unter war was
    er es im ja ob um zu ai ce de du et il je ma mon ne ou sa se si ta te tu
    """.split()  # noqa: SIM905
)
"""Further ones, which are words, abbreviations or parts of names in English, too."""
_FOREIGN = ASKING | ABROAD | FALSE_FRIENDS
_NAMES = re.compile(
    r"(?<![A-Z]{2} )\b(?:IT|US|WHO)\b|^May$|\bMay(?=,? \d)|(?<=\d )May\b|(?<=\b(?:in|by|of|to) )May\b"
    r"|(?<=\b(?:since|until|after) )May\b|(?<=\bbefore )May\b"
)
"""Words that are a name or a month in this place, and else carry no content."""
_ELISION = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu)['’](?=\w)")
_SHORTENED = re.compile(r"\b(?:ca|wo|sha)n['’]t\b|(?:n['’]t|['’](?:s|d|m|re|ve|ll))\b")
"""Ends of words that carry no content: company's, doesn't, I'm."""

_PAIRS = """
increase increases increased rise rises rose risen grew grows | decrease decreases decreased fall falls fell fallen shrank
higher more | lower less fewer
before | after
above over exceeds | below under
minimum least | maximum most
highest largest biggest | lowest smallest
allow allows allowed may permitted | forbid forbids forbidden prohibited banned
always | never
all every | none no
accept accepts accepted approved agreed | reject rejects rejected refuse refuses refused declined
include includes included including | exclude excludes excluded excluding
won win wins | lost lose loses
profit | loss
buy buys bought | sell sells sold
start starts started begin begins began | stop stops stopped end ends ended
enable enables enabled | disable disables disabled
open opens opened | close closes closed
earlier earliest | later latest
optional voluntary | mandatory required compulsory
full fully whole complete completely | half partial partly
"""
OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, _, other in (line.partition("|") for line in _PAIRS.strip().splitlines())
)
"""Pairs of opposites: a claim with a word of one side contradicts a source with a word of the other."""


def digits(text: str) -> str:
    """Return the text with spelled numbers below a hundred as digits; `one` stays, since it is mostly a pronoun."""

    def value(match: re.Match[str]) -> str:
        tens, ones, single = match.groups()
        if single is not None:
            return match.group() if single.casefold() == "one" else str(_VALUES[single.casefold()])
        return str(_VALUES[tens.casefold()] + (_VALUES[ones.casefold()] if ones else 0))

    return _HALF.sub(r"\1.5", _SPELLED.sub(value, text))


@lru_cache(2048)
def content(text: str) -> frozenset[str]:
    """Return the stems of the words that carry content; numbers are words too. Empty when there are none."""
    whole, elided = _ELISION.subn(" ", text.casefold())
    words = set(_WORD.findall(_SHORTENED.sub(" ", whole))) - STOPWORDS
    if words & ASKING or len(words & ABROAD) + elided > 1:
        words -= _FOREIGN
    if not text.isupper() or " " not in text:  # a text in capitals tells nothing
        words.update(name.casefold() for name in _NAMES.findall(text))
    return frozenset(stem for word in words for stem in _stems(word))


@lru_cache(50_000)
def _stems(word: str) -> frozenset[str]:
    value = _VALUES.get(word)
    return terms(word) if value is None or word == "one" else frozenset((str(value),))


def holds(words: frozenset[str], term: str) -> bool:
    """Return True if a term is among words, in another form or, if it has figures, in two words: station12 is Station 12, not Station 1."""
    if term in words:
        return True
    if len(term) < _PREFIX or term.isdigit():
        return False
    if _FIGURE.search(term):
        return all(part in words for part in _PARTS.findall(term))
    return f"\n{term}" in _lines(words) or any(term[:end] in words for end in range(_PREFIX, len(term)))


@lru_cache(4096)
def _lines(words: frozenset[str]) -> str:
    """Return the words, each after a line break, so that one substring search finds a prefix."""
    return "\n" + "\n".join(words)


def _plain(number: str) -> str:
    if _THOUSANDS.fullmatch(number):
        number = number.replace(",", "")
    elif number.count(",") == 1 and "." not in number:
        number = number.replace(",", ".")
    if number.count(".") > 1 or "," in number:
        return number  # a version, a date
    whole, _, part = number.partition(".")
    part = part.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{part}" if part else "")


def thousands(text: str) -> str:
    """Return the text without the full stops of German thousands: 1900 Euro for 1.900 Euro."""
    return _GERMAN.sub(lambda match: match.group().replace(".", ""), text)


def _figures(text: str) -> str:
    """Return the text with numbers and degrees in one notation: -1900 for minus 1 900, and 20 °C for 20 degrees Celsius."""
    plain = _SCALE.sub(r"°\1", _MINUS.sub("-", digits(text)))
    return thousands(_GROUPED.sub(lambda match: _NO_DIGITS.sub("", match.group()), plain))


def numbers(text: str) -> frozenset[str]:
    """Return the numbers, including spelled ones, in one notation: 1,900 equals 1900, and 6,5 equals 6.50."""
    return frozenset(_plain(number) for number in _NUMBERS.findall(_figures(text)))


def measures(text: str) -> Measures:
    """Return (number, unit) of each number followed by a word or sign; both ends of a range get its unit."""
    found: set[tuple[str, str]] = set()
    text = _figures(text)
    for first, second, word in _MEASURE.findall(text):
        name: str = word.casefold()
        unit = _UNITS.get(name, name)
        stems = terms(unit) if unit not in STOPWORDS else frozenset[str]()
        for stem in stems:
            found.update((_plain(number), _SAME.get(stem, stem)) for number in (first, second) if number)
    for sign, number in _PRICE.findall(text):
        found.update((_plain(number), stem) for stem in terms(_UNITS[sign]))
    return frozenset(found)


def otherwise(number: str, unit: str, stated: Measures) -> bool:
    """Return True if the source gives this number another unit, or this unit only other numbers."""
    if (number, unit) in stated:
        return False
    known = UNITS - _DEGREE if unit in _SCALES else UNITS  # 20 degrees may be 20 °C
    return any(n == number and u in known for n, u in stated) or any(u == unit for _, u in stated)


def units(words: AbstractSet[str]) -> frozenset[str]:
    """Return the units among stems, monthly as month."""
    return frozenset(_SAME.get(word, word) for word in words if word in UNITS)


def negated(text: str) -> bool:
    return _NEGATION.search(text) is not None


def opposed(claim: str, source: str) -> bool:
    """Return True if the claim contradicts a word of the source, such as before for after or rises for falls."""
    said, stands = ({word.casefold() for word in _WORD.findall(text)} for text in (claim, source))
    return any(
        (said & a and not said & b and stands & b and not stands & a)
        or (said & b and not said & a and stands & a and not stands & b)
        for a, b in OPPOSITES
    )
