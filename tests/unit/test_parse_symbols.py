"""Which fonts have the characters of Symbol."""

import pytest

from assets.stages.parse.symbols import is_symbol


@pytest.mark.parametrize(
    "font",
    [
        "Symbol",
        "symbol",
        "SymbolMT",
        "SymbolPS",
        "SymbolStd",
        "SymbolNeu",
        "ABCDEF+Symbol,Bold",
        "ABCDEF+SymbolMT-Italic",
    ],
)
def test_fonts_with_the_characters_of_symbol(font: str) -> None:
    assert is_symbol(font)


@pytest.mark.parametrize(
    "font", ["Symbola", "ABCDEF+Symbola", "SymbolicXS", "Noto Sans Symbols", "Segoe UI Symbol", ""]
)
def test_fonts_with_characters_of_unicode(font: str) -> None:
    assert not is_symbol(font)
