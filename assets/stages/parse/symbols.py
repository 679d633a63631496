"""Characters of the fonts Symbol and Wingdings, whose codes Office files and PDFs keep in place of Unicode.

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
_TICKS = {
    0x52: "☑", 0x54: "☒", 0x6F: "☐", 0x71: "☐", 0x78: "☒", 0xA3: "☐", 0xA8: "☐", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☒",
}  # fmt: skip
"""Characters of Wingdings and Wingdings 2 that forms tick."""
_SIGNS = {0x4A: "☺", 0xA7: "▪", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨"}
"""Arrows and other characters of Wingdings that stand in texts."""
_PICTURES = dict.fromkeys(range(0xF020, 0xF100), "")
_MORE_WINGDINGS = _PICTURES | _TICKS | {0xF000 + code: character for code, character in _TICKS.items()}
_WINGDINGS = _MORE_WINGDINGS | _SIGNS | {0xF000 + code: character for code, character in _SIGNS.items()}
_FONTS = {"wingdings": _WINGDINGS, "wingdings 2": _MORE_WINGDINGS, "wingdings 3": _PICTURES}
_SYMBOL = re.compile(r"symbol(?:mt|ps|std|neu)?(?:[,-].*)?", re.IGNORECASE)
"""Not Symbola, whose characters are those of Unicode."""


def is_symbol(font: str) -> bool:
    """Return True if a font has the characters of Symbol: `SymbolMT`, `ABCDEF+Symbol,Bold`."""
    return _SYMBOL.fullmatch(font.rpartition("+")[2]) is not None


def codes_of(font: str) -> dict[int, str]:
    """Return the characters of Symbol or Wingdings by their codes, for `str.translate`; nothing for another font."""
    if is_symbol(font):
        return SYMBOLS
    return _FONTS.get(font.lower(), {})


def in_codes(text: str, codes: dict[int, str]) -> str:
    """Return a run's text in Unicode. One with letters that are no codes is text that somebody set in the font, and stays."""
    is_text = any(one.isalpha() and ord(one) not in codes for one in text)
    return text.translate({code: one for code, one in codes.items() if code > 0xFF} if is_text else codes)
