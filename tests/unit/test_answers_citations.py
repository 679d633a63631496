"""An answer's sentences and the sources that each cites."""

from __future__ import annotations

import pytest

from serving.answers.citations import sentences

CASES = {
    "It lasts 6.5 years [1]. It needs two cells [2].": [("It lasts 6.5 years.", (1,)), ("It needs two cells.", (2,))],
    "It lasts 6.5 years. [1] It needs two cells. [2][1]": [("It lasts 6.5 years.", (1,)), ("It needs two cells.", (2, 1))],
    "See No. 5, e.g. the Heron of Dr. Berg [1]. Next.": [("See No. 5, e.g. the Heron of Dr. Berg.", (1,)), ("Next.", ())],
    "- First item [2]\n- Second item [1]": [("First item", (2,)), ("Second item", (1,))],
    "1. Open the lid [1].\n2. Close it [2].": [("Open the lid.", (1,)), ("Close it.", (2,))],
    "All of it is so.\n[3]": [("All of it is so.", (3,))],
    "It was so for everybody. it also rained, see pp. three ff. of it.": [
        ("It was so for everybody.", ()), ("it also rained, see pp. three ff. of it.", ())
    ],
    "Is it? Yes [1]!": [("Is it?", ()), ("Yes!", (1,))],
    "[1] says that it rains": [("says that it rains", (1,))],
    "押金是五千元。[1] 退款需要三天。[2]": [("押金是五千元。", (1,)), ("退款需要三天。", (2,))],
    "彼は「はい。」[1]と言った[2]。": [("彼は「はい。」", (1,)), ("と言った。", (2,))],
    "वह लाल है। [1] वह नीचे है। [2]": [("वह लाल है।", (1,)), ("वह नीचे है।", (2,))],
    "Es ist zu.\n24. Dezember: zu. [1]\n2. Sonst offen. [2]": [("Es ist zu.", ()), ("24. Dezember: zu.", (1,)), ("Sonst offen.", (2,))],
    "Das Büro ist im 2. Obergeschoss [1]. Die Frist endet mit dem 3. Quartal [2].": [
        ("Das Büro ist im 2. Obergeschoss.", (1,)), ("Die Frist endet mit dem 3. Quartal.", (2,))
    ],
    "Es ist offen ab 9. Bitte klingeln. Es sind die 12. Es geht.": [
        ("Es ist offen ab 9.", ()), ("Bitte klingeln.", ()), ("Es sind die 12.", ()), ("Es geht.", ())
    ],
    "Fr. Weber, Dipl.-Ing. Berg, dhr. Vos, Sr. Paz, Sra. Paz, Sig. Po, Rev. Lee, Gen. Lee: exkl. MwSt. [1] Ja.": [
        ("Fr. Weber, Dipl.-Ing. Berg, dhr. Vos, Sr. Paz, Sra. Paz, Sig. Po, Rev. Lee, Gen. Lee: exkl. MwSt.", (1,)), ("Ja.", ())
    ],
    "Voir l’art. 5, pág. 5, Tél. 01, Eq. 5, Ref. 12, Hauptstr. 5 [1]. Il l’a. Don't. Oui.": [
        ("Voir l’art. 5, pág. 5, Tél. 01, Eq. 5, Ref. 12, Hauptstr. 5.", (1,)), ("Il l’a.", ()), ("Don't.", ()), ("Oui.", ())
    ],
    "Surcharges:\n+ 25 EUR per night [1]\n+ 4.5 %": [("Surcharges:", ()), ("+ 25 EUR per night", (1,)), ("+ 4.5 %", ())],
    "": [],
    "[1]": [],
}  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), CASES.items())
def test_sentences_and_what_they_cite(answer: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    found = sentences(answer)
    assert [(one.text, one.cited) for one in found] == expected


@pytest.mark.parametrize("answer", CASES)
def test_offsets_point_into_the_answer(answer: str) -> None:
    for one in sentences(answer):
        assert one.text.split()[0].strip("!?.。") in answer[one.start : one.end]
        assert all(f"[{number}]" in answer[one.start : one.end] for number in one.cited)
