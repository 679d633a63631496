"""RTF as Word writes it: text boxes, shapes, notes, comments, changes under review, numbers of lists and boxes of forms."""

import pytest

from assets.stages.parse import parse
from resources.core.filetypes import RTF


def lines(body: str) -> list[str]:
    document = parse((r"{\rtf1\ansi " + body + "}").encode("ascii"), RTF, title="x")
    return document.text.replace("\n\n", "\n").split("\n")


RESULT = r"{\shprslt{\*\do{\dptxbxtext\pard In a box\par}}}"
BOX = rf"{{\shp{{\*\shpinst\shpleft100{{\sp{{\sn shapeType}}{{\sv 202}}}}{{\shptxt \pard In a box\par}}}}{RESULT}}}"
OLD_BOX = r"{\*\do\dobxpage\dptxbx{\dptxbxtext\pard In a box\par}\dpx1}"
GROUP = r"{\shpgrp{\*\shpinst{\shp{\*\shpinst{\shptxt One\par}}}{\shp{\*\shpinst{\shptxt Two\par}}}}}"
WORD_ART = r"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 136}}{\sp{\sn gtextUNICODE}{\sv DRAFT}}}}"
FOOTNOTE = r"{\super\chftn{\footnote\pard\plain{\super\chftn} Without tax.}}"
COMMENT = r"{\*\atnid AR}{\*\atnauthor Ana Ruiz}\chatn{\*\annotation{\*\atnref 1}{\*\atndate 12}\pard Too low.}"
ROW = r"\trowd\cellx1\cellx2\pard\intbl %s\cell %s\cell\row "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rf"Before {BOX}and after.\par Next.\par", ["Before and after.", "In a box", "Next."]),
        (rf"Before\par {OLD_BOX}After\par", ["Before", "After", "In a box"]),
        (rf"{GROUP}After\par", ["After", "One", "Two"]),
        (rf"Plan{WORD_ART}\par", ["Plan", "DRAFT"]),
        (rf"Plan{BOX}", ["Plan", "In a box"]),
        (rf"The limit is 4.2{FOOTNOTE} million.\par Next.\par", ["The limit is 4.2 [1] million.", "[1] Without tax.", "Next."]),
        (rf"The price{COMMENT} is 9 EUR.\par Next.\par", ["The price is 9 EUR.", "Comment by Ana Ruiz: Too low.", "Next."]),
        (
            ROW % (rf"City{FOOTNOTE}", rf"Days{BOX}") + ROW % ("Rome", "30") + r"\pard{\*\bkmkstart a} After\par",
            ["City [1] | Days", "Rome | 30", "[1] Without tax.", "In a box", "After"],
        ),
        (
            rf"{{\headerf \pard Page {{\field{{\*\fldinst PAGE}}{{\fldrslt 1}}}}\par}}{{\footer \b Acme\par}}A{FOOTNOTE} b"
            rf"{{\header \pard Acme{BOX}{WORD_ART}\par}}\par C",
            ["A [1] b", "[1] Without tax.", "C", "Header and footer", "Acme", "In a box", "DRAFT"],
        ),
        (
            rf"{{\footer {ROW % ('Acme', 'DRAFT')}}}{{\footerf {ROW % ('Acme', 'DRAFT')}}}" + ROW % ("Rome", "30"),
            ["Rome | 30", "Header and footer", "Acme | DRAFT"],
        ),
    ],
)  # fmt: skip
def test_boxes_notes_and_comments_follow_their_paragraph_or_table(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r"The limit is {\rtlch\fcs1 \deleted\revauthdel1 500}{\revised\revauth1 600} EUR.\par", ["The limit is 600 EUR."]),
        (r"One {\deleted line\par}and the same.\par", ["One and the same."]),
        (r"Price {\strike 500}600 EUR\par", ["Price 500 600 EUR"]),
        (r"\strike 50\b 0\strike0\b0 600, {\striked1 x}, y{\strike0 z}w\par", ["500 600, x, yzw"]),
        (r"Seen{\v , not \'e4\u228?}{\v unseen\v0 , seen}.\par", ["Seen, seen."]),
        (r"{\v all \plain shown}\par", ["shown"]),
        (rf"One{{\deleted {FOOTNOTE}{BOX}{COMMENT}}} two.\par", ["One two."]),
    ],
)  # fmt: skip
def test_text_is_what_word_shows_with_all_changes_accepted(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ROW % ("Region", "Q1") + ROW % ("EMEA", "10") + ROW % ("", "11") + ROW % ("APAC", "12"),
         ["Region | Q1", "EMEA | 10", "| 11", "APAC | 12"]),
        (rf"Prices\par {ROW % ('', '2025')}{ROW % ('Lamp', '9')}", ["Prices", "| 2025", "Lamp | 9"]),
        (ROW % ("Item", "Q1") + ROW % ("", "") + ROW % ("Lamp", "9") + r"\pard After\par", ["Item | Q1", "Lamp | 9", "After"]),
        (ROW % (r"A\par", "B"), ["A | B"]),
        (ROW % ("Item", "Notes") + ROW % (r"Lamp\par\pard\intbl {\b brass\b0\par}old", r"one\line two") + r"\pard After\par",
         ["Item | Notes", "Lamp brass old | one two", "After"]),
        (r"{\header " + ROW % (r"Acme\par Inc", "DRAFT") + r"\pard Berlin\par}Text\par One\line two\par",
         ["Text", "One", "two", "Header and footer", "Acme Inc | DRAFT", "Berlin"]),
        (ROW % ("Item", "Notes") + ROW % ("Lamp\\\nbrass", "9"), ["Item | Notes", "Lamp brass | 9"]),
    ],
)  # fmt: skip
def test_rows_keep_their_cells(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


FONTS = r"{\fonttbl{\f0 Arial;}{\f3\froman\fcharset2\fprq2{\*\panose 05050102}Symbol;}{\f4 Symbolic;}}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r"age {\f3\'b3}18, {\f3 m}g\f3\'b1\f0\'b1\par", ["age ≥18, \u00b5g±±"]),
        (r"{\f3\u-3917\'b3}5 {\f3\u-3917 ?a}\par", ["≥5 ≥α"]),
        (r"{\f3\plain\'b3}{\f4\'b3}\par", ["³³"]),
        (r"{\f3\u ?a}\par", ["α"]),
        (r"\uc0 {\f3\u-3917 a\uc2\u-3917 ??a}\par", ["≥α≥α"]),
        (r"{\f3\uc2\u-3917\'b3\'b3\'b3{\uc0\u-3917 a}\u-3917 ?\'b3a}\par", ["≥≥≥α≥α"]),
        ("{\\f3\\u-3917\n?a}\\par", ["≥α"]),
        (r"{\field{\*\fldinst SYMBOL 179 \\f " '"Symbol"' r" \\s 12}{\fldrslt\f3}}18\par", ["≥18"]),
        (r"{\field{\*\fldinst SYMBOL 9999999999 \\f Symbol}{\fldrslt}}18\par", ["18"]),
    ],
)
def test_characters_of_symbol(body: str, expected: list[str]) -> None:
    assert lines(FONTS + body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r"{\pntext 1.\tab}{\*\pn\pnlvlbody}First\par{\listtext\pard 2.\tab}Second\par", ["1.\tFirst", "2.\tSecond"]),
        (r"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres1}}}{\fldrslt}} yes\par", ["☒ yes"]),
        (r"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres25\ffdefres0}}}{\fldrslt}} no\par", ["☐ no"]),
        (r"{\field{\*\fldinst FORMTEXT {\*\formfield{\fftype0}}}{\fldrslt Ana}}\par", ["Ana"]),
        (r"{\object{\*\objdata 0105}{\result \pard Total 30 EUR\par}}", ["Total 30 EUR"]),
        (r"{\upr{Gen?ve}{\*\ud{Gen\u232?ve}}}\par", ["Genève"]),
        (r"A{\*\shppict{\pict\bin4 {}{}}}B\par", ["AB"]),
        (r"{\fs24\*\cs7\cf0 Ana} and { \*\unknown not} \{\*\par", ["Ana and {"]),
        (r"A{\shptxt open", ["A", "open"]),
        (r"A}}} after the end", ["A"]),
    ],
)
def test_lists_forms_objects_and_pictures(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


def test_characters_for_private_use_begin_no_header() -> None:
    repeated = (
        r"Alpha \u-8192? beta\par 2023\par Alpha\par 2023\par 17\par Gamma\u-560?\\u64976\par{\footer \u-560?Acme\par}"
    )
    assert lines(repeated) == [
        "Alpha \ue000 beta", "2023", "Alpha", "2023", "17", "Gamma\ufffd\\u64976", "Header and footer", "\ufffdAcme",
    ]  # fmt: skip
    assert lines(r"\ansicpg932 Alpha \'f0\'40 beta\par 17\par 17\par") == ["Alpha \ue000 beta", "17", "17"]


def test_a_header_may_have_a_long_line_of_signs() -> None:
    line = "-" * 5_000
    assert lines(rf"{{\header {line} Report\par {line} 3 / {line} 17 {line}\par Seite 3 von 17\par}}A\par") == [
        "A", "Header and footer", f"{line} Report",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        r"\trowd\cellx1000\pard\intbl a\cell\row\pard\intbl0 one\par two\par",
        r"\trowd\cellx1000\intbl a\cell\sect\sectd one\par two\par",
    ],
)
def test_paragraphs_after_a_row_that_is_left_open_stay_apart(body: str) -> None:
    assert lines(body)[-2:] == ["one", "two"]
