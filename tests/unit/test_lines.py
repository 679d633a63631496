"""The wire format between our own processes: a message is a line of JSON, however its bytes arrive."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.servers.lines import Lines, line
from resources.servers.shared import Inherited


class Note(msgspec.Struct):
    text: str


@given(st.lists(st.text(), max_size=5), st.integers(1, 50))
def test_messages_are_read_in_pieces_of_any_size(texts: list[str], size: int) -> None:
    notes = list(map(Note, texts))
    sent = b"".join(map(line, notes))
    lines = Lines(Note, 10_000)
    read = [found for start in range(0, len(sent), size) for found in lines.feed(sent[start : start + size])]
    assert [note for note, _ in read] == notes
    assert sum(length + 1 for _, length in read) == len(sent)


@pytest.mark.parametrize("other", [b"hello\n", b"\n", b'{"text": 1}\n'])
def test_other_messages_are_refused_after_those_before_them(other: bytes) -> None:
    messages = Lines(Note, 10_000).feed(line(Note("first")) + other)
    assert next(messages)[0] == Note("first")
    with pytest.raises(msgspec.MsgspecError):
        next(messages)


def test_a_message_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    lines = Lines(Note, 1000)
    assert list(lines.feed(b" " * 1000)) == []
    with pytest.raises(msgspec.MsgspecError):
        list(lines.feed(b" "))


def test_a_serving_process_receives_what_it_inherits_on_its_command_line() -> None:
    inherited = Inherited(1, 2, 7, -1)
    assert Inherited.parse(inherited.argument()) == inherited
