"""Who may find a file: tables over Drive's permissions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from resources.sources.drive import permissions
from resources.sources.drive.permissions import FileGrant

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def user(email: str = "ada@acme.example", **more: Any) -> dict[str, Any]:
    return {"id": f"id-{email}", "type": "user", "emailAddress": email, **more}


@pytest.mark.parametrize(
    ("listed", "principals", "sharing"),
    [
        ([], set(), "private"),
        ([user()], {"ada@acme.example"}, "private"),
        ([user("Ada@ACME.example")], {"ada@acme.example"}, "private"),
        ([user(), user("bob@acme.example")], {"ada@acme.example", "bob@acme.example"}, "shared"),
        ([{"type": "group", "emailAddress": "eng@acme.example"}], {"group:eng@acme.example"}, "shared"),
        ([{"type": "domain", "domain": "acme.example", "allowFileDiscovery": True}], {"domain:acme.example"}, "domain"),
        ([{"type": "domain", "domain": "acme.example", "allowFileDiscovery": False}], set(), "domain"),
        ([{"type": "domain", "domain": "acme.example"}], set(), "domain"),
        ([{"type": "anyone", "allowFileDiscovery": True}], {"public"}, "public"),
        ([{"type": "anyone"}], set(), "anyone-with-link"),
        ([user(), {"type": "anyone"}], {"ada@acme.example"}, "anyone-with-link"),
        ([user(deleted=True)], set(), "private"),
        ([user(view="metadata")], set(), "private"),
        ([user(expirationTime="2025-12-31T23:59:59.000Z")], set(), "private"),
        ([user(expirationTime="2026-01-01T00:00:00Z")], set(), "private"),
        ([user(expirationTime="soon")], set(), "private"),
        ([user(expirationTime="2026-01-02T00:00:00.000Z")], {"ada@acme.example"}, "private"),
        ([{"type": "user"}], set(), "private"),
        ([{"type": "user", "emailAddress": "nonsense"}], set(), "private"),
        ([{"type": "user", "emailAddress": "public"}], set(), "private"),
        ([{"type": "robot", "emailAddress": "ada@acme.example"}], set(), "private"),
        ([{"type": "domain", "domain": "", "allowFileDiscovery": True}], set(), "domain"),
        (["ada@acme.example", None, 7], set(), "private"),
    ],
)
def test_what_permissions_grant(listed: list[Any], principals: set[str], sharing: str) -> None:
    grant = permissions.read(listed, NOW)
    assert set(grant.principals) == principals
    assert grant.sharing == sharing


def test_the_first_expiry_of_a_permission_is_reported() -> None:
    listed = [
        user(expirationTime="2026-03-01T00:00:00Z"),
        user("bob@acme.example", expirationTime="2026-02-01T00:00:00Z"),
        user("carol@acme.example"),
    ]
    assert permissions.read(listed, NOW).expires == datetime(2026, 2, 1, tzinfo=UTC)
    assert permissions.read([user()], NOW).expires is None


def test_ids_of_people_and_groups_are_learnt_for_good() -> None:
    listed = [
        user(),
        {"id": "g", "type": "group", "emailAddress": "eng@acme.example"},
        {"id": "d", "type": "domain", "domain": "acme.example", "allowFileDiscovery": True},
        {"id": "anyone", "type": "anyone", "allowFileDiscovery": True},
        user("bob@acme.example", expirationTime="2026-02-01T00:00:00Z"),
        user("carol@acme.example", view="metadata"),
        user("dan@acme.example", deleted=True),
        {"type": "user", "emailAddress": "eve@acme.example"},
    ]
    assert permissions.learn(listed, NOW) == {"id-ada@acme.example": "ada@acme.example", "g": "group:eng@acme.example"}


def test_ids_answer_when_all_are_known() -> None:
    known = {"1": "ada@acme.example", "2": "group:eng@acme.example"}
    everyone = frozenset(known.values())
    assert permissions.by_ids(["1", "2"], known) == (FileGrant(everyone, "shared"), [])
    linked = FileGrant(everyone, "anyone-with-link", linked=True)
    assert permissions.by_ids(["1", "2", "anyoneWithLink"], known) == (linked, [])
    assert permissions.by_ids(["1", "anyone", "9"], known)[1] == ["anyone", "9"]


def test_the_owner_is_always_among_them() -> None:
    no_one = FileGrant(frozenset(), "private")
    assert permissions.with_owner(no_one, None) == no_one
    assert permissions.with_owner(no_one, "ada@acme.example") == FileGrant(frozenset({"ada@acme.example"}), "private")
    bob = FileGrant(frozenset({"bob@acme.example"}), "private")
    assert permissions.with_owner(bob, "ada@acme.example").sharing == "shared"


def test_the_digest_distinguishes_grants() -> None:
    one = FileGrant(frozenset({"a@x.example", "b@x.example"}), "shared")
    assert one.digest == FileGrant(frozenset({"b@x.example", "a@x.example"}), "shared").digest
    assert one.digest != one._replace(sharing="anyone-with-link").digest
    assert one.digest != one._replace(principals=frozenset({"a@x.example"})).digest
