"""A request with several faults is told all of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from serving.http.every_fault import MOST_FAULTS, every_fault


class Between(Struct, forbid_unknown_fields=True):
    start: int
    end: Annotated[int, Meta(ge=0)] | None = None


class Body(Struct, forbid_unknown_fields=True, rename={"words": "text"}):
    words: Annotated[str, Meta(min_length=3)]
    top: Annotated[int, Meta(ge=1, le=50)] = 5
    mode: Annotated[Literal["a", "b"], Meta(title="Mode")] = "a"
    between: Between | None = None
    parts: Annotated[list[Between], Meta(max_length=3)] = []


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"text": "four"}, []),
        ({"text": "x", "top": 99, "mode": "z"}, ["text", "top", "mode"]),
        ({"top": 99, "other": 1}, ["text", "top", "other"]),
        ({"text": "four", "between": {"end": -1, "more": 1}}, ["between.start", "between.end", "between.more"]),
        ({"text": "four", "between": 3, "top": "1"}, ["top", "between"]),
        ({"text": "four", "parts": [{"start": 1}, {"start": "1"}, {}]}, ["parts[1].start", "parts[2].start"]),
        ({"text": "four", "parts": [{"start": 1}] * 4, "top": 0}, ["top", "parts"]),
        (7, ["body"]),
        ([], ["body"]),
    ],
)
def test_each_fault_is_named(body: Any, fields: list[str]) -> None:
    assert [one.field for one in every_fault(Body, body)] == fields


def test_the_first_fault_is_told_as_by_msgspec() -> None:
    body = {"text": "four", "top": 99}
    (fault,) = every_fault(Body, body)
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(body, Body)
    assert str(raised.value).startswith(f"E{fault.message[1:]}")
    assert fault.allowed == "a whole number from 1 to 50"


def test_faults_are_bounded() -> None:
    assert len(every_fault(Body, {"text": "four", **{f"f{number}": 1 for number in range(100)}})) == MOST_FAULTS
