"""Characters of the font Symbol, whose codes Office files and PDFs keep in place of Unicode.

Source: Adobe, Symbol Encoding, https://unicode.org/Public/MAPPINGS/VENDORS/ADOBE/symbol.txt, without parts of large brackets.
"""

import re

_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλ\u00b5νοπθρστυϖωξψζ{|}∼"
_HIGH = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑           ⟩∫⌠ ⌡          "
"""The codes from 0x20 and from 0xA0. A space stands for what is no character."""
_CODES = dict(enumerate(_LOW, start=0x20)) | dict(enumerate(_HIGH, start=0xA0))
PRIVATE = {0xF000 + code: character for code, character in _CODES.items()}
"""For `str.translate`: where fonts of symbols have their characters in Unicode's private use area."""
SYMBOLS = PRIVATE | _CODES
"""The same, and for codes without that offset."""
_SYMBOL = re.compile(r"symbol(?:mt|ps|std|neu)?(?:[,-].*)?", re.IGNORECASE)
"""Not Symbola, whose characters are those of Unicode."""


def is_symbol(font: str) -> bool:
    """Return True if a font has the characters of Symbol: `SymbolMT`, `ABCDEF+Symbol,Bold`."""
    return _SYMBOL.fullmatch(font.rpartition("+")[2]) is not None
