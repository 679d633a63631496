"""How pages write people and types of files."""

import re

import pytest

from serving.web.formats import KINDS, TYPE_ICONS, initials, type_icon
from serving.web.static import FOLDER


@pytest.mark.parametrize(
    ("who", "letters"),
    [
        ("Marta Kowalska", "MK"),
        ("marta.kowalska@acme.com", "MK"),
        ("Ana María de la Cruz", "AC"),
        ("ann@acme.com", "A"),
        ("Élodie", "É"),
        ("王小明", "王"),
        ("42@acme.com", "4"),
        ("<b>x", "BX"),
        ("", ""),
    ],
)
def test_initials_are_those_of_the_first_and_the_last_word(who: str, letters: str) -> None:
    assert initials(who) == letters


def test_every_icon_of_a_type_exists_and_every_name_of_a_type_is_known() -> None:
    symbols = set(re.findall(r'<symbol id="(\w+)"', (FOLDER / "icons.svg").read_text("utf-8")))
    assert set(TYPE_ICONS) <= set(KINDS.values())
    assert {*TYPE_ICONS.values(), type_icon("application/x-unknown")} <= symbols
    assert (type_icon("application/pdf"), type_icon("text/markdown")) == ("pdf", "text")
