"""A question about the most or the least is answered by that row of a table."""

import pytest

from serving.answers.extractive import choose, shortlist, without_strays

TABLE = [
    "| Region | Orders | Returned (%) | Sales | Owner |",
    "| North | 41 | 2.5 % | 1,200 EUR | Ann |",
    "| South | 9 | 3.1 % | 900 EUR | Ben |",
    "| West | 120 | 0.4 % | 10,400 EUR | Cid |",
    "| Total | 170 | 6 % | 12,500 EUR | |",
]


def quoted(question: str, rows: list[str]) -> list[str]:
    passages = [("Sales of the regions", "\n".join(rows))]
    chosen = without_strays(choose(shortlist(question, passages), passages, [[]]), sure=True)
    return [one.text.partition(": ")[2].partition(" |")[0] for one in chosen]


@pytest.mark.parametrize(
    ("question", "region"),
    [
        ("Which region has the most orders?", "West"),
        ("Which region has the fewest orders?", "South"),
        ("In which region were the sales the highest?", "West"),
        ("Where is the lowest share of returned goods?", "West"),
        ("Which region has the largest returned share?", "South"),
        ("Welche Region hat die meisten Orders?", "West"),
    ],
)
def test_the_row_with_the_most_or_the_least_is_quoted(question: str, region: str) -> None:
    assert quoted(question, TABLE) == [region]


def test_rows_with_the_same_figure_are_both_quoted() -> None:
    rows = [*TABLE[:3], TABLE[3].replace("120", "9")]
    assert sorted(quoted("Which region has the fewest orders?", rows)) == ["South", "West"]


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("Which region has at least 41 orders?", TABLE),
        ("Which region has the most owners?", TABLE),
        ("Which region has the most orders?", [TABLE[0], TABLE[1], TABLE[2].replace("| 9 |", "| unknown |"), TABLE[3]]),
    ],
)
def test_without_figures_of_a_named_column_no_row_is_the_most(question: str, rows: list[str]) -> None:
    passages = [("Sales of the regions", "\n".join(rows))]
    assert not any("extreme" in one.features for one in shortlist(question, passages))


@pytest.mark.parametrize(
    ("figures", "most"),
    [
        (["1.900 €", "950 €", "80,50 €"], ["Miete"]),
        (["1.900,50", "950,25", "80"], ["Miete"]),
        (["1.900", "2.500", "1.000"], ["Strom"]),
        (["1.900", "2.5", "3.25"], ["Wasser"]),
        (["1.900", "950", "80"], []),
    ],
)
def test_german_figures_are_read_as_such_and_none_that_may_be_either(figures: list[str], most: list[str]) -> None:
    rows = [
        "| Posten | Kosten |",
        *(f"| {name} | {figure} |" for name, figure in zip(["Miete", "Strom", "Wasser"], figures, strict=True)),
    ]
    found = shortlist("Welcher Posten hat die höchsten Kosten?", [("Büro", "\n".join(rows))])
    assert [one.text.split()[1] for one in found if "extreme" in one.features] == most


@pytest.mark.parametrize(
    ("figures", "most"),
    [
        (["2 GB", "900 MB", "800 kB"], []),
        (["2 h", "90 min", "3 h"], []),
        (["1.5 Mio", "900 k", "2 k"], []),
        (["$5", "€7", "$6"], []),
        (["(500)", "200", "100"], []),
        (["\u2212500", "-200", "\u2013700"], ["Power"]),
        (["\u2212 500 EUR", "200 EUR", "€ \u2212700"], ["Power"]),
        (["1 day", "3 days", "2 days"], ["Power"]),
        (["-3 %", "+5 %", "~2 %"], ["Power"]),
        (["0", "5 %", "3 %"], ["Power"]),
        (["€4", "5 EUR", "3 Euro"], ["Power"]),
        (["8 Mio.", "9 Mio", "7 Mio*"], ["Power"]),
    ],
)
def test_figures_are_compared_with_their_sign_and_only_in_one_unit(figures: list[str], most: list[str]) -> None:
    rows = [
        "| Part | Change |",
        *(f"| {name} | {figure} |" for name, figure in zip(["Rent", "Power", "Water"], figures, strict=True)),
    ]
    found = shortlist("Which part has the largest change?", [("Office", "\n".join(rows))])
    assert [one.text.split()[1] for one in found if "extreme" in one.features] == most
