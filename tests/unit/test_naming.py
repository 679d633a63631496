"""A passage is also found by its document's names, in the words that people type, and no name counts twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.naming import MOST_WORDS, keyword_text, name_words, names_of, split_compounds


@pytest.mark.parametrize(
    ("names", "text", "words"),
    [
        (["budget_2026-final.xlsx", "budget_2026-final.xlsx"], "Travel: 100", "budget 2026 final"),
        (["Heron specification", "heron-spec_v3.pdf"], "The gauge has two cells.", "Heron specification spec v3"),
        (["Heron specification", "heron-spec_v3.pdf"], "Heron specification\n\nThe gauge", "spec v3"),
        (["Vacation policy", "vacation-policy.md"], "Vacation policy\n\nEverybody has 25 days.", ""),
        (["THE PLAN, AGAIN", "p.txt"], "The plan: again. It is", "p"),
        (["The cat and the dog"], "The cat and the dog sat.", ""),
        (["Plan"], "Planning begins.", "Plan"),
        (["Node.js in v1.2"], "", "Node js in v1 2"),
        (["budget budget Budget"], "", "budget"),
        (["#general: the key?", "#general: the key?", "#general"], "ada: the key?", "#general: the key?"),
        ([""], "text", ""),
        (["....", "-_."], "text", ""),
    ],
)
def test_names_become_words(names: list[str], text: str, words: str) -> None:
    assert name_words(names, 0, text) == words
    assert name_words(names, 1, text) == ""


def test_a_passage_is_read_after_its_names() -> None:
    assert keyword_text("budget 2026", "Travel") == "budget 2026\nTravel"
    assert keyword_text("", "Travel") == "Travel"


@given(names=st.lists(st.text(max_size=300), max_size=3), text=st.text(max_size=300))
def test_any_names_give_few_words_each_once(names: list[str], text: str) -> None:
    words = name_words(names, 0, text).casefold().split()
    assert len(set(words)) == len(words) <= MOST_WORDS


def test_a_registry_row_has_three_names() -> None:
    row = {"title": "Plan", "source_title": "plan.md", "path": "a/b/the-plan.md"}
    assert names_of(row) == ("Plan", "plan.md", "the-plan.md")


def test_joined_words_of_a_query_are_asked_for_apart_as_well() -> None:
    assert (
        split_compounds("where is budget_2026-final.xlsx") == "where is budget_2026-final.xlsx budget 2026 final xlsx"
    )
    assert split_compounds("plain words") == "plain words"
