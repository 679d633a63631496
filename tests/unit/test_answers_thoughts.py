"""What a model thinks before its answer is no part of it, in whatever pieces it comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.answers.thoughts import Thoughts

CASES = {
    "<think>\nThe tea [1]?\n</think>\n\nAt four [1].": "At four [1].",
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


def test_an_answer_is_not_held_up() -> None:
    thoughts = Thoughts()
    assert [thoughts.feed(one) for one in ("At", " four", " <think>")] == ["At", " four", " <think>"]
