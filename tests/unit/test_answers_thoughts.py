"""What a model thinks before its answer is no part of it, in whatever pieces it comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.answers.thoughts import Thoughts, answered

CASES = {
    "<think>\nThe tea [1]?\n</think>\n\nAt four [1].": "At four [1].",
    "<think>The tea?</think>\n<think>Or coffee?</think>\nAt four [1].": "At four [1].",
    " \n<think></think>At four [1].": "At four [1].",
    "<think>a < b </ think> </think> At <think>four</think>.": "At <think>four</think>.",
    "At four [1]. <think>": "At four [1]. <think>",
    "  At four [1].": "  At four [1].",
    "<thinking> helps.": "<thinking> helps.",
    "<thin": "<thin",
    "<think>No end </thin": "",
    "<think>Nothing more</think>\n": "",
    "": "",
}

WHOLE = {
    "The tea [1]?\n</think>\n\nAt four [1].": "At four [1].",
    "The tea?</think><think>Or coffee?</think> <think>No end": "",
    "The tag `</think>` ends them [1].": "The tag `</think>` ends them [1].",
}
"""Of an answer in pieces, the first could not be told from its beginning."""


def read(pieces: list[str]) -> str:
    thoughts = Thoughts()
    return "".join([*map(thoughts.feed, pieces), thoughts.close()])


@pytest.mark.parametrize("text", CASES)
def test_thoughts_at_the_beginning_are_left_out(text: str) -> None:
    assert read([text]) == CASES[text]
    assert read(list(text)) == CASES[text]


@given(st.sampled_from(list(CASES)), st.lists(st.integers(0, 60)))
def test_pieces_change_nothing(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    assert read([text[at:to] for at, to in pairwise(places)]) == CASES[text]


@pytest.mark.parametrize("text", [*CASES, *WHOLE])
def test_thoughts_in_a_whole_answer_are_left_out(text: str) -> None:
    assert answered(text) == (CASES | WHOLE)[text]


def test_long_thoughts_are_not_kept() -> None:
    thoughts = Thoughts()
    for piece in ("<think>", *["thought "] * 1000):
        assert thoughts.feed(piece) == ""
    assert len(thoughts._held or "") < 20
    assert [thoughts.feed(piece) for piece in ("</thi", "nk>\n", "At four.")] == ["", "", "At four."]


def test_an_answer_is_not_held_up() -> None:
    thoughts = Thoughts()
    assert [thoughts.feed(one) for one in ("At", " four", " <think>")] == ["At", " four", " <think>"]
