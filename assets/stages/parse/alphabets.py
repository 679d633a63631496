"""Guess the encoding of text in Latin and Cyrillic letters by the alphabets of languages.

A few accented letters are enough: "Gen\\xe8ve" is "Genève" in French and "Genčve" in no language. Statistics need whole pages for that.
"""

import codecs
import re
from collections.abc import Iterable

_WESTERN = (
    "àâæçèéêëîïôœùûüÿ", "äöüßé", "áéíñóúü", "áâãàçéêíóôõúü", "àèéìíîòóùú", "åäöéü", "æøåéôòö", "áðéíóúýþæö",
    "éëïóöüèêáûäçí", "àçèéíïòóúü", "ëç", "äöüõšžé",
)  # fmt: skip
"""French, German, Spanish, Portuguese, Italian, Swedish, Danish and Norwegian, Icelandic, Dutch, Catalan, Albanian, Estonian"""
_CENTRAL = (
    "ąćęłńóśźż", "áčďéěíňóřšťúůýžöü", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţșț", "čćđšž", "äöüßé",
)  # fmt: skip
"""Polish, Czech, Slovak, Hungarian, Romanian, Croatian and Slovenian, German"""
_CANDIDATES = (
    ("cp1252", _WESTERN),
    ("cp1250", _CENTRAL),
    ("iso8859_2", _CENTRAL),
    ("cp1254", ("çğıöşüâîû",)),
    ("cp1257", ("ąčęėįšųūž", "āčēģīķļņšūž", "äöüõšž")),
)
"""Encodings with the alphabets that they are used for, the most frequent first."""
_EURO = (("iso8859_15", _WESTERN),)
"""The encoding in which the euro takes the place of a sign (¤) that nobody writes."""
_C1 = re.compile(rb"[\x80-\x9f]")
"""Bytes that are letters or signs in the encodings of Windows, DOS and Macs alone."""
_OLD = (("cp850", _WESTERN), ("mac_roman", _WESTERN), ("cp852", _CENTRAL))
"""Encodings of DOS and of the first Macs."""
_TYPOGRAPHIC = frozenset("–—“”‘’„‚…€·•°§²³«»™®©£´¨" + "".join(map(chr, range(0x2500, 0x2600))))
"""Symbols that are no sign of a wrong encoding, among them DOS's lines of tables."""
_MIXED = tuple((encoding, ("".join(alphabets),)) for encoding, alphabets in _CANDIDATES[:3])
"""Lists of names in several languages."""
_IN_WORD = re.compile(r"[^\W\d_][^\w\s'’‘´·\-–—.,;:!?/()\[\]{}\"“”„‚«»&@#+*=%…]+[^\W\d_]|[±¶¼½¾¿¡¥¦¤¬£§©][^\W\d_]{2}")
"""A symbol within a word, which is a letter of another encoding. A question may begin with ¿ and ¡, and text with §."""
_CONTROLS = re.compile("[\x80-\x9f]")
_OPENING = re.compile(r"(?:^|[\s(\"“«])[¿¡§©](?=\w)", re.MULTILINE)
_FEW = 4
_ENOUGH = 0.9
_MARGIN = 0.05
"""By how much more letters a rarer encoding must explain, unless it alone explains all of them."""
_ALMOST = 0.999
_MOST_ACCENTED = 0.5
"""Share of letters beyond ASCII above which one alphabet must explain all of them: text in other scripts has more."""
_NO_LETTERS = "µªº"
_KANA = 0.2
"""Least share of kana in Japanese text."""
_HANGUL = 0.8
_WORD_LENGTH = 12
"""Syllables between spaces in Korean text, at most; Chinese text has no spaces."""
_FREQUENT = 0.6
"""Least share of Chinese characters that are among the frequent half of their standard."""
_HEBREW = frozenset(range(0xE0, 0xFB))
_CYRILLIC = ("cp1251", "koi8_r", "cp866", "iso8859_5", "mac_cyrillic", "cp855")
_BY_FREQUENCY = {letter: place for place, letter in enumerate("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё")} | {"і": 6}
"""Letters of Russian, the most frequent first, with one of Ukrainian."""
_NO_WORD = 40
"""The place of a letter of no language, or in a word with capitals in the middle."""
_CAPITALS = 6
"""By how many places letters of words in capitals come later: text in another encoding of Cyrillic or Hebrew often looks like them."""
_USUAL = 10.5
"""Average place of the letters of Cyrillic text, at most; of 1,000 pieces of 400 bytes, right ones are below 9.8, others above 10.9."""
_LETTERS = 12
"""Least letters for that average."""
_WORDS = 0.7
"""Least share of letters in words of three and more, where most letters are ASCII: in programs with comments."""
_CYRILLIC_WORD = re.compile("[\u0400-\u04ff]+")
_CYRILLIC_WORDS = re.compile(r"\b[\u0400-\u04ff]{3,}\b")


def cyrillic(sample: bytes) -> str | None:
    """Return the encoding of text in Cyrillic letters, in which the most frequent ones are those of Russian."""
    beyond = [byte for byte in sample if byte > 0x7F]
    if len(beyond) < _LETTERS or _HEBREW.issuperset(beyond):
        return None
    texts = {encoding: sample.decode(encoding, errors="replace") for encoding in _CYRILLIC}
    places = {encoding: _place(text) for encoding, text in texts.items()}
    best = min(_CYRILLIC, key=lambda encoding: places[encoding])
    if _mostly_beyond(sample):
        return best if places[best] <= _USUAL else None
    words = sum(map(len, _CYRILLIC_WORDS.findall(texts[best])))
    return best if places[best] <= _USUAL - 1 and words >= _WORDS * len(beyond) else None


def _place(text: str) -> float:
    """Return the average place of the letters of a text by their frequency."""
    beyond = sum(character > "\x7f" for character in text)
    places = letters = 0
    for word in _CYRILLIC_WORD.findall(text):
        letters += len(word)
        if word.isupper() or word[1:].islower() or len(word) == 1:
            places += sum(_BY_FREQUENCY.get(letter, _NO_WORD) for letter in word.lower())
            places += _CAPITALS * len(word) if word.isupper() and len(word) > 1 else 0
        else:
            places += _NO_WORD * len(word)
    return (places + (beyond - letters) * _NO_WORD // 2) / beyond


def _mostly_beyond(sample: bytes) -> bool:
    """Return True if most letters are beyond ASCII, if all bytes there are letters."""
    beyond = sum(byte > 0x7F for byte in sample)
    letters = sum(0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A for byte in sample)
    return beyond > _MOST_ACCENTED * (letters + beyond)


def latin(sample: bytes) -> str | None:
    """Return the encoding of text in Latin letters; None if no language's alphabet explains its letters."""
    many = _mostly_beyond(sample)
    with_euro = _EURO if b"\xa4" in sample and not _C1.search(sample) else ()
    return _best(sample, (*with_euro, *_CANDIDATES), 1.0 if many else _ENOUGH) or (
        None if many else _best(sample, _MIXED, _ENOUGH) or _best(sample, _OLD, _ENOUGH)
    )


def _best(sample: bytes, candidates: Iterable[tuple[str, tuple[str, ...]]], least: float) -> str | None:
    best, most = None, least
    for encoding, alphabets in candidates:
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError:
            continue
        share = _share(text, alphabets)
        if share >= most and (best is None or share > most):
            best, most = encoding, min(share + _MARGIN, max(share, _ALMOST))
    return best


def other(sample: bytes) -> str | None:
    """Return the encoding of Japanese, Korean, Chinese and Hebrew text; None if it is none of these."""
    beyond = [byte for byte in sample if byte > 0x7F]
    if len(beyond) > _FEW and _HEBREW.issuperset(beyond):
        return "cp1255"
    shares: dict[str, float] = {}
    for encoding in ("euc_jp", "cp932", "cp949", "gb18030", "big5"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            text = decoder.decode(sample)  # the sample may end within a character
        except UnicodeDecodeError:
            continue
        wide = [character for character in text if character > "\x7f" and not 0xFF61 <= ord(character) <= 0xFF9F]
        if not wide:
            continue
        if encoding in {"euc_jp", "cp932"}:
            share = sum("\u3041" <= character <= "\u30fe" for character in wide) / len(wide)
            if share >= _KANA:
                return encoding
        elif encoding == "cp949":
            hangul = sum("\uac00" <= character <= "\ud7a3" for character in wide)
            if hangul >= _HANGUL * sum(map(str.isalpha, wide)) and _WORD_LENGTH * text.count(" ") >= hangul:
                return encoding
        else:
            shares[encoding] = _frequent(wide, encoding)
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and shares[best] >= _FREQUENT else None


def _frequent(characters: list[str], encoding: str) -> float:
    """Return the share of Chinese characters in the first level of GB 2312 or Big5, which holds the frequent ones."""
    first, last = (0xB0, 0xD7) if encoding == "gb18030" else (0xA4, 0xC6)
    leads = [character.encode(encoding)[0] for character in characters if "\u4e00" <= character <= "\u9fff"]
    others = sum(character.isalpha() and not "\u4e00" <= character <= "\u9fff" for character in characters)
    return sum(first <= lead <= last for lead in leads) / (len(leads) + others) if leads else 0.0


def _share(text: str, alphabets: tuple[str, ...]) -> float:
    """Return the largest share of the letters beyond ASCII that one alphabet has; symbols within words count as missing."""
    symbols = len(_IN_WORD.findall(_OPENING.sub(" ", text)))
    symbols += (
        sum(character > "\x7f" and not character.isalpha() and character not in _TYPOGRAPHIC for character in text) // 2
    )
    symbols += len(_CONTROLS.findall(text))
    letters = [
        character.lower()[0]
        for character in text
        if character > "\x7f" and character.isalpha() and character not in _NO_LETTERS
    ]
    if not letters:
        return 1.0 if not symbols else 0.0
    known = max(sum(letter in alphabet or letter.isascii() for letter in letters) for alphabet in alphabets)
    return known / (len(letters) + symbols)
