"""Each sentence against its source: the true ones pass in other words too; a changed number, name, unit or "not" never does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from serving.answers.citations import Sentence
from serving.answers.support import MEANING, CitedText, Verdict, check, verdict
from serving.search.retrieval.highlight import pieces

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    1: CitedText(
        "The Heron is powered by two D cells. With a reading every 15 minutes a pair of cells lasts 6.5 years. At minus 20 degrees "
        "the life falls to 4 years. The housing does not need to be opened to change them.",
        "Heron specification Power",
    ),
    2: CitedText(
        "Employees accrue twenty five vacation days a year and may carry over five of them until March. Unused days are not paid "
        "out. Parental leave is 16 weeks at full pay for either parent.",
        "Time off",
    ),
    3: CitedText(
        "Product | Monthly price | Term\nHeron gauge | 890 | 12 months\nKingfisher gateway, satellite | 1,250 | 24 months\n"
        "Weir Flood plan | 75 | 12 months",
        "Price list 2026 Hardware",
    ),
    4: CitedText(
        "GPL and AGPL code may not be used in firmware. Tools that only run on our own machines may use any licence. Helen Marsh "
        "signs exceptions before the release.",
        "Open source policy",
    ),
    5: CitedText(
        "Power\n\nThe Kingfisher gateway sends readings once an hour. With a reading every 15 minutes and a gateway within one "
        "kilometre a pair of cells lasts 6.5 years. The gauge warns at 5.2 volts. Acme bought Larkmoor in 2019. The Heron is powered "
        "by two D cells.\n\nParts\n- Antenna",
        "Hardware guide > Power",
    ),
}
TRUE = [
    ("A pair of cells lasts 6.5 years with a reading every 15 minutes.", 1),
    ("The batteries of a Heron hold for six and a half years.", 1),
    ("Two D cells power the Heron.", 1),
    ("In the cold, at minus 20 degrees, the life drops to four years.", 1),
    ("You get 25 vacation days a year.", 2),
    ("Up to 5 vacation days can be carried over until March.", 2),
    ("Unused days are not paid out.", 2),
    ("“Unused days are not paid out.”", 2),
    ("Both parents get sixteen weeks of fully paid parental leave.", 2),
    ("The Kingfisher gateway with satellite costs 1250.", 3),
    ("The Weir Flood plan costs 75 a month.", 3),
    ("GPL code may not be used in firmware.", 4),
    ("It is not allowed to use AGPL code in firmware.", 4),
    ("Internal tools may use any licence.", 4),
    ("Exceptions are signed by Helen Marsh.", 4),
    ("Helen Marsh's signature precedes the release.", 4),
    ("The cells last 6.5 years.", 5),
    ("With a gateway within a kilometre, the cells last 6.5 years.", 5),
    ("Every hour the gateway sends readings.", 5),
    ("Readings are sent once an hour by the Kingfisher gateway.", 5),
    ("Larkmoor was bought by Acme in 2019.", 5),
    ("Two D cells power the Heron.", 5),
    ("Tools on our own machines may use any licence.", 4),
    ("6.5 years.", 5),
    ("Antenna", 5),
]
FALSE = [
    ("A pair of cells lasts 65 years.", 1, "number"),
    ("A pair of cells lasts 6.5 months.", 1, "number"),
    ("A pair of cells lasts 15 years with a reading every 6.5 minutes.", 1, "number"),
    ("The Heron is powered by two AA cells.", 1, "name"),
    ("At minus 20 degrees the life rises to 4 years.", 1, "negation"),
    ("The housing needs to be opened to change them.", 1, "negation"),
    ("The Heron was certified by the Norwegian navy.", 1, None),
    ("A pair of cells lasts 6.5 years.", 2, None),
    ("Unused days are paid out.", 2, "negation"),
    ("You get 30 vacation days a year.", 2, "number"),
    ("You may carry over five days until April.", 2, "name"),
    ("Parental leave is 16 weeks at half pay.", 2, "negation"),
    ("Parental leave is 16 days at full pay.", 2, "number"),
    ("Employees love their vacation days and rarely leave.", 2, None),
    ("All unused days expire in March.", 2, None),
    ("The CEO approved the vacation policy.", 2, None),
    ("The Heron gauge costs 1,250.", 3, "number"),
    ("The Kingfisher gateway costs 890 for 12 months.", 3, "number"),
    ("The Weir Flood plan costs 75 a year.", 3, "number"),
    ("GPL code may be used in firmware.", 4, "negation"),
    ("Tools on our own machines may not use any licence.", 4, "negation"),
    ("Tomasz Berg signs exceptions before the release.", 4, "name"),
    ("Helen Marsh signs exceptions after the release.", 4, "negation"),
    ("The moon is made of green cheese.", 1, "words"),
    ("Two D cells power the Heron.", 9, "uncited"),
    ("The gateway lasts 6.5 years.", 5, "subject"),
    ("The gateway is powered by two D cells.", 5, "subject"),
    ("Two D cells power the gateway.", 5, "subject"),
    ("The gauge sends readings once an hour.", 5, "subject"),
    ("Larkmoor bought Acme in 2019.", 5, "subject"),
    ("The gateway warns at 5.2 volts.", 5, "subject"),
    ("Yes.", 1, "empty"),
    ("That is it.", 1, "empty"),
    ("Power", 5, "empty"),
    ("**Power:**", 5, "empty"),
    ("Hardware guide", 5, "empty"),
    ("Parts", 5, "empty"),
    ("Heron power:", 1, "empty"),
]


OPPOSED = [
    ("The limit is 10", "The limit is 100 EUR.", "number"),
    ("The limit is 1", "The limit is 1.5 EUR.", "number"),
    ("500 Euro are paid.", "1 500 Euro are paid.", "number"),
    ("Smoking is allowed", "No smoking is allowed on site.", "negation"),
    ("Der Zugang ist für Gäste möglich.", "Der Zugang ist für Gäste nicht möglich.", "negation"),
    ("Gäste haben Zutritt.", "Gäste haben keinen Zutritt.", "negation"),
    ("L’accès est autorisé.", "L’accès n’est pas autorisé.", "negation"),
    ("L’accesso è consentito.", "L’accesso non è consentito.", "negation"),
    ("The deposit is refundable.", "The deposit is non-refundable.", "negation"),
    ("员工可以吸烟", "员工不可以吸烟。", "negation"),
    ("吸烟", "员工不可以吸烟。", "negation"),
    ("The store is kept at 5 °C.", "The store is kept at -5 °C.", "number"),
    ("5 °C in the store", "The store: -5 °C in the store.", "number"),
    ("The store is kept at −5 °C.", "The store is kept at 5 °C.", "number"),
    ("The water has 20 °F.", "The water has 20 °C.", "number"),
    ("The dose is 10 g.", "The dose is 10 mg.", "number"),
    ("The bottle holds 500 l.", "The bottle holds 500 ml.", "number"),
    ("The delay is 10 s.", "The delay is 10 ms.", "number"),
    ("The plant has 5 MW.", "The plant has 5 kW.", "number"),
    ("The disk has 5 TB.", "The disk has 5 GB.", "number"),
]
ALIKE = [
    (
        "For a week abroad, employees get 1500 Euro as allowance.",
        "For a week abroad, all employees get 1 500 Euro as allowance.",
    ),
    (
        "For a week abroad, employees get 1 500 Euro as allowance.",
        "For a week abroad, all employees get 1’500 Euro as allowance.",
    ),
    ("The old pump in the basement stops at -20 °C.", "The old pump in our basement stops at minus 20 degrees."),
    ("The old pump in the basement stops at 20 degrees.", "The old pump in our basement stops at 20 °C."),
    ("The old pump in the basement stops at 20 °C.", "The old pump in our basement stops at 20 degrees Celsius."),
    ("The old pump in the basement starts after 10 seconds.", "The old pump in our basement starts after 10 s."),
    ("The way from the station to the office is 5 km.", "The way from our station to the office is 5 kilometres."),
    ("Lessons take place on 16-20 May.", "On 16-20 May, lessons take place."),
    ("A share of 10 %-20 % is paid.", "Of this share, 10 to 20 % is paid."),
    ("非常安全", "这里非常安全，很好。"),
    ("水壶很安全", "不锈钢的水壶很安全，颜色不同。"),
    ("The limit is 10 EUR", "the  limit is\n10 EUR."),
]


@pytest.mark.parametrize(("claim", "source", "reason"), OPPOSED)
def test_a_source_that_says_the_opposite_or_another_amount(claim: str, source: str, reason: str) -> None:
    held = check(Sentence(0, len(claim), claim, (1,)), {1: CitedText(source)}, by_meaning=False)
    assert (held.supported, held.reason) == (False, reason)


@pytest.mark.parametrize(("claim", "source"), ALIKE)
def test_an_amount_may_be_written_in_another_way(claim: str, source: str) -> None:
    held = check(Sentence(0, len(claim), claim, (1,)), {1: CitedText(source)}, by_meaning=False)
    assert (held.supported, held.reason) == (True, None)


def test_subjects_raise_no_false_alarm_on_real_sentences() -> None:
    found: list[str] = []
    compared = 0
    for page in (ROOT / "examples" / "sources").rglob("*.md"):
        text = page.read_text()
        for chunk in (text[at : at + 1500] for at in range(0, len(text), 1500)):
            for piece in pieces(chunk):
                sentence = " ".join(chunk[piece.start : piece.end].split())
                if piece.row or len(sentence.split()) < 5 or not sentence.endswith("."):
                    continue
                for claim in (re.sub(r"\b[Tt]he\b", "a", sentence), f"In short, {sentence[0].lower()}{sentence[1:]}"):
                    compared += 1
                    held = check(Sentence(0, len(claim), claim, (1,)), {1: CitedText(chunk)}, by_meaning=True)
                    found += [claim] if held.reason == "subject" else []
    assert compared > 300
    assert found == []


def judged(model: Any, claim: str, number: int) -> Verdict:
    """The verdict, with the bundled model where the meaning decides."""
    held = check(Sentence(0, len(claim), claim, (number,)), SOURCES, by_meaning=True)
    cosine = None
    if held.evidence is not None:
        one, other = model.embed([claim, held.evidence])
        cosine = float(one @ other)
    return verdict(held, cosine, MEANING[model.model])


@pytest.mark.parametrize(("claim", "number"), TRUE)
def test_what_the_source_says_is_supported(bundled_model: Any, claim: str, number: int) -> None:
    assert judged(bundled_model, claim, number).supported


@pytest.mark.parametrize(("claim", "number", "reason"), FALSE)
def test_what_the_source_does_not_say_is_marked(
    bundled_model: Any, claim: str, number: int, reason: str | None
) -> None:
    found = judged(bundled_model, claim, number)
    assert not found.supported
    assert reason is None or found.reason == reason


def test_two_sources_together_support_what_neither_says_alone(bundled_model: Any) -> None:
    claim = "The Heron is powered by two D cells and costs 890."
    both = check(Sentence(0, len(claim), claim, (1, 3)), SOURCES, by_meaning=False)
    assert both.supported
    assert not check(Sentence(0, len(claim), claim, (1,)), SOURCES, by_meaning=False).supported


def test_a_sentence_without_a_source_is_not_supported() -> None:
    held = check(Sentence(0, 5, "Two D cells power the Heron.", ()), SOURCES, by_meaning=False)
    assert (held.supported, held.reason) == (False, "uncited")


@pytest.mark.parametrize(("claim", "number"), TRUE)
def test_without_a_known_model_nothing_passes_by_meaning(claim: str, number: int) -> None:
    held = check(Sentence(0, len(claim), claim, (number,)), SOURCES, by_meaning=False)
    assert held.evidence is None
