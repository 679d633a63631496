"""The soak test's truth: what counts as leaked or missed while a change is in progress and once it is in force."""

from __future__ import annotations

import time

from bench.soak.truth import Fact, Truth


def test_a_revoked_person_may_be_shown_a_text_until_the_change_is_in_force() -> None:
    truth = Truth()
    fact = truth.fact("files", {"ada", "bob"})
    truth.done(fact)
    truth.synced("files", time.monotonic())
    truth.change(fact, {"ada"})
    truth.done(fact)
    during = time.monotonic()
    assert not truth.leaked(fact.word, "bob", during, during)
    truth.synced("files", during - 1)  # it started before the change: it proves nothing
    assert not truth.leaked(fact.word, "bob", time.monotonic(), time.monotonic())
    truth.synced("files", time.monotonic())
    after = time.monotonic()
    assert truth.leaked(fact.word, "bob", after, after)
    assert not truth.leaked(fact.word, "bob", during, after), "a search that began before may still show it"
    assert not truth.leaked(fact.word, "ada", after, after)


def test_a_text_is_never_shown_to_a_person_outside_of_every_audience() -> None:
    truth = Truth()
    fact = truth.fact("upload", {"ada"})
    now = time.monotonic()
    assert truth.leaked(fact.word, "eve", now, now)


def missed(truth: Truth, fact: Fact, person: str) -> bool:
    now = time.monotonic()
    return truth.missed(fact.word, person, now, now)


def test_a_text_has_to_be_shown_once_a_sync_has_indexed_it() -> None:
    truth = Truth()
    fact = truth.fact("slack", {"ada"})
    assert not missed(truth, fact, "ada"), "it may not be indexed yet"
    truth.done(fact)
    truth.synced("slack", time.monotonic())
    assert missed(truth, fact, "ada")
    assert not missed(truth, fact, "bob")
    truth.change(fact, {"ada", "bob"})
    assert missed(truth, fact, "ada"), "both audiences name her"
    assert not missed(truth, fact, "bob"), "no sync has seen the change"
    truth.done(fact)
    truth.synced("slack", time.monotonic())
    assert missed(truth, fact, "bob")
    truth.change(fact, ())
    assert not missed(truth, fact, "ada"), "its deletion is under way"


def test_a_narrowing_between_two_widenings_may_take_effect_late() -> None:
    truth = Truth()
    fact = truth.fact("files", {"ada", "bob"})
    truth.done(fact)
    truth.synced("files", time.monotonic())
    truth.change(fact, {"ada"})
    truth.done(fact)
    seen = time.monotonic()
    truth.change(fact, {"ada", "bob"})
    truth.done(fact)
    assert not missed(truth, fact, "bob"), "the index may hold any of the three"
    assert missed(truth, fact, "ada")
    truth.synced("files", seen)
    assert not missed(truth, fact, "bob"), "the sync saw the narrowing and not the widening"
    truth.synced("files", time.monotonic())
    assert missed(truth, fact, "bob")


def test_an_upload_that_is_shared_differently_is_found_by_the_new_people_after_a_sync() -> None:
    truth = Truth()
    fact = truth.fact("upload", {"ada", "bob"})
    truth.done(fact)
    truth.synced("upload", time.monotonic())
    truth.change(fact, {"ada", "eve"})
    truth.done(fact, in_force=True)
    now = time.monotonic()
    assert truth.leaked(fact.word, "bob", now, now)
    assert not missed(truth, fact, "eve")
    truth.synced("upload", time.monotonic())
    assert missed(truth, fact, "eve")


def test_a_new_text_inherits_the_audiences_that_are_not_settled() -> None:
    truth = Truth()
    old = truth.fact("files", {"bob"})
    truth.done(old)
    truth.synced("files", time.monotonic())
    truth.change(old, {"ada"})
    truth.done(old)
    new = truth.fact("files", old.audience)
    truth.inherit(new, old)
    truth.done(new)
    assert not missed(truth, new, "ada"), "the text before it was indexed, this one is not"
    now = time.monotonic()
    assert not truth.leaked(new.word, "bob", now, now)
    truth.synced("files", time.monotonic())
    now = time.monotonic()
    assert truth.leaked(new.word, "bob", now, now)


def test_a_person_who_is_in_both_audiences_may_wait_for_the_sync_if_the_old_one_ends_at_once() -> None:
    truth = Truth()
    fact = truth.fact("push", {"ada", "bob"})
    truth.done(fact)
    truth.synced("push", time.monotonic())
    truth.change(fact, {"ada"}, kept=())
    truth.done(fact, in_force=True)
    now = time.monotonic()
    assert not truth.missed(fact.word, "ada", now, now)
    assert not truth.leaked(fact.word, "ada", now, now)
    assert truth.leaked(fact.word, "bob", now, now)
    truth.synced("push", time.monotonic())
    now = time.monotonic()
    assert truth.missed(fact.word, "ada", now, now)
