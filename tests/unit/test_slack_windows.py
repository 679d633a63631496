"""Grouping of messages: each is in exactly one window, and messages grouped once stay grouped."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.sources.slack.windows import LONGEST, MOST, Window, assign, clean_cut, micros, stamp

GAP = 30


@dataclass(frozen=True)
class Said:
    """The part of a message that windows use."""

    at: int


def _windows(
    times: list[int], known: list[Window] | None = None, gap: int | None = GAP, taken: set[int] | None = None
) -> list[Window]:
    return [window for window, _ in _assigned(times, known, gap, taken)]


def _assigned(
    times: list[int], known: list[Window] | None = None, gap: int | None = GAP, taken: set[int] | None = None
) -> list[tuple[Window, list[Said]]]:
    return assign([Said(at) for at in times], known or [], gap=gap, taken=frozenset(taken or ()))


def test_a_gap_begins_a_window() -> None:
    assert _windows([1, 20, 50, 81, 100]) == [Window(1, 50, 3), Window(81, 100, 2)]


def test_a_full_window_is_followed_by_another() -> None:
    assert _windows(list(range(1, 251))) == [Window(1, 100, 100), Window(101, 200, 100), Window(201, 250, 50)]


def test_a_window_grows_at_its_end() -> None:
    assert _windows([1, 20, 50], [Window(1, 20, 2)]) == [Window(1, 50, 3)]
    assert _windows([1, 20, 51], [Window(1, 20, 2)]) == [Window(1, 20, 2), Window(51, 51, 1)]


def test_what_was_together_stays_though_the_middle_is_gone() -> None:
    assert _windows([1, 90], [Window(1, 90, 4)]) == [Window(1, 90, 2)]


def test_a_window_keeps_its_name_when_its_anchor_is_deleted() -> None:
    assert _windows([20, 30], [Window(1, 30, 3)]) == [Window(1, 30, 2)]


def test_a_window_whose_anchor_became_a_thread_is_called_after_its_next_message() -> None:
    assert _windows([20, 30], [Window(1, 30, 3)], taken={1}) == [Window(20, 30, 2)]


def test_a_window_that_lost_everything_ends() -> None:
    assert _windows([40], [Window(1, 30, 3)]) == [Window(40, 40, 1)]
    assert _windows([], [Window(1, 30, 3)]) == []


def test_no_window_spans_more_than_a_week() -> None:
    assert _windows([1, LONGEST, LONGEST + 2], gap=LONGEST) == [
        Window(1, LONGEST, 2),
        Window(LONGEST + 2, LONGEST + 2, 1),
    ]


def test_a_thread_knows_no_gap() -> None:
    assert _windows([1, 10**9], gap=None) == [Window(1, 10**9, 2)]


times = st.lists(st.integers(1, 2_000), unique=True, max_size=150).map(sorted)


@given(times, times, st.sets(st.integers(1, 2_000), max_size=20), st.integers(1, 40))
def test_each_message_is_in_exactly_one_window_whatever_happened_before(
    earlier: list[int], now: list[int], threads: set[int], gap: int
) -> None:
    known = _windows(earlier, gap=gap)
    outside = [at for at in now if at not in threads]
    found = _assigned(outside, known, gap, threads)
    assert [message.at for _, held in found for message in held] == outside
    names = [window.anchor for window, _ in found]
    assert len(names) == len(set(names))
    assert not threads & set(names)
    for window, held in found:
        assert 1 <= len(held) <= MOST
        assert (window.last, window.count) == (held[-1].at, len(held))
        assert window.anchor <= held[0].at
    for (before, _), (after, _) in pairwise(found):
        assert before.last < after.anchor


@given(times, times, st.sets(st.integers(1, 2_000), max_size=20), st.integers(1, 40))
def test_doing_it_again_changes_nothing(earlier: list[int], now: list[int], threads: set[int], gap: int) -> None:
    outside = [at for at in now if at not in threads]
    once = _windows(outside, _windows(earlier, gap=gap), gap, threads)
    assert _windows(outside, once, gap, threads) == once


@given(times, times, st.sets(st.integers(1, 2_000), max_size=20), st.integers(2, 30), st.integers(1, 40))
def test_pages_from_the_newest_backwards_give_windows_that_stay(
    earlier: list[int], now: list[int], threads: set[int], size: int, gap: int
) -> None:
    known = _windows(earlier, gap=gap)
    settled: list[Window] = []
    kept: list[int] = []
    left, high = now, 10**6
    while left:
        left, page = left[:-size], [*left[-size:], *kept]
        cut = 0
        if left:
            around = [window for window in known if window.last >= page[0] and window.anchor < high]
            found = clean_cut([(at, at not in threads) for at in page], around, gap)
            if found is None:
                kept = page
                continue
            cut = found
        kept, page = page[:cut], page[cut:]
        low = page[0] if left else 0
        own = [window for window in known if low <= window.anchor < high]
        outside = [at for at in page if at not in threads]
        settled += _windows(outside, own, gap, threads)
        high = low
    everything = [at for at in now if at not in threads]
    assert sum(window.count for window in settled) == len(everything)
    assert _windows(everything, settled, gap, threads) == sorted(settled, key=lambda window: window.anchor)


@pytest.mark.parametrize("ts", ["1731234567.000100", "0000000001.000000", "1731234567.999999"])
def test_times_are_exact(ts: str) -> None:
    assert stamp(micros(ts)) == ts


def test_short_times_are_understood() -> None:
    assert micros("1731234567") == micros("1731234567.0") == 1731234567000000
