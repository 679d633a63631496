"""The soak's judgement: what counts as a leak, and what as missed, while a change is under way and once it is in force."""

from __future__ import annotations

import time

from bench.soak.truth import Truth


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


def test_nobody_outside_of_every_audience_may_be_shown_a_text_at_any_time() -> None:
    truth = Truth()
    fact = truth.fact("upload", {"ada"})
    now = time.monotonic()
    assert truth.leaked(fact.word, "eve", now, now)


def test_a_text_that_was_shown_has_to_be_shown_again_unless_it_changed() -> None:
    truth = Truth()
    fact = truth.fact("slack", {"ada"})
    assert not truth.missed(fact.word, "ada", time.monotonic()), "it may not be indexed yet"
    truth.found(fact.word, "ada", time.monotonic())
    assert truth.missed(fact.word, "ada", time.monotonic())
    truth.change(fact, {"ada", "bob"})
    assert not truth.missed(fact.word, "ada", time.monotonic())


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
    now = time.monotonic()
    assert not truth.leaked(new.word, "bob", now, now)
    truth.synced("files", time.monotonic())
    now = time.monotonic()
    assert truth.leaked(new.word, "bob", now, now)
