"""The one condition that is rewritten; the contract tests check that both forms find the same."""

from __future__ import annotations

import pytest

from resources.servers.vector.filters import Condition, Match, Range, spread

ANY = Condition(key="permissions", match=Match(any=["ada@acme.example", "public"]))
OTHER = Condition(key="rank", match=Match(value=1))


def test_any_of_some_words_alone_is_a_choice_of_them() -> None:
    choice = [Condition(key="permissions", match=Match(value=value)) for value in ("ada@acme.example", "public")]
    assert spread(Condition(must=[ANY])) == Condition(should=choice)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        Condition(),
        Condition(must=[]),
        Condition(must=ANY),
        Condition(must=[ANY, OTHER]),
        Condition(must=[ANY], must_not=[OTHER]),
        Condition(must=[ANY], should=[OTHER]),
        Condition(should=[ANY]),
        Condition(must_not=[ANY]),
        Condition(must=[Condition(must=[ANY])]),
        Condition(must=[Condition(key="permissions", match=Match(any=[]))]),
        Condition(must=[Condition(key="rank", match=Match(any=[1, 2]))]),
        Condition(must=[Condition(key="rank", match=Match(any=["a"]), range=Range(gt=1.0))]),
        Condition(must=[Condition(has_id=[1])]),
    ],
    ids=repr,
)
def test_whatever_else_stays_as_it_is(kept: Condition | None) -> None:
    assert spread(kept) == kept
