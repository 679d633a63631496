"""Texts from outside, as Postgres and UTF-8 can hold them."""

from __future__ import annotations

import pytest

from resources.core.texts import decoded, storable, storable_value


def test_json_is_decoded_with_storable_texts() -> None:
    content = b'{"a\\u0000": ["\\ud83d", "\\ud83d\\ude00", "\\\\u0000", 1.5, null]}'
    assert decoded(content) == {"a\ufffd": ["\ufffd", "\U0001f600", "\\u0000", 1.5, None]}
    assert decoded(b'["\\\\u0000"]') == ["\\u0000"]
    for wrong in (b"", b"<html>", b"\xff"):
        with pytest.raises(ValueError, match=r"Expecting value|can't decode"):
            decoded(wrong)


def test_only_what_cannot_be_stored_is_replaced() -> None:
    for text in ("", "plan", "caf\u00e9 \U0001f600", "a\ufffdb"):
        assert storable(text) is text
    assert storable("a\0b\ud83d \ude00") == "a\ufffdb\ufffd \ufffd"
    assert storable_value({"a\0": ("b\0", 1, None)}) == {"a\ufffd": ["b\ufffd", 1, None]}
