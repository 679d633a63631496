"""SCIM 2.0 over HTTP: what identity providers send, what it changes for sign-in and groups, and the public conformance checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from resources.core.domain import Role
from resources.stores.postgres import session
from serving.identity import api_keys
from serving.identity.scim.groups import principal_of
from tests.fixtures.serving import PUBLIC_URL, Running, Site

ADA, BOB, PROVISIONER = "ada@acme.com", "bob@acme.com", "provisioner@acme.com"
QUERY = "harbour ledger"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
OURS = {"Origin": PUBLIC_URL, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Provider:
    """An identity provider that provisions this installation."""

    def __init__(self, running: Running) -> None:
        self.running = running
        with session(running.site.settings.postgres_dsn) as connection:
            self.key = api_keys.create(connection, PROVISIONER, scim=True)

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/scim+json"}
        return self.running.http.request(method, f"/scim/v2{path}", json=body, headers=headers, **more)

    def user(self, email: str, **more: Any) -> str:
        """Create a user as Okta does; return the id."""
        body = {
            "schemas": [USER],
            "userName": email,
            "name": {"givenName": "A", "familyName": "B"},
            "emails": [{"primary": True, "value": email, "type": "work"}],
            "active": True,
            "password": "hunter2-secret",
            "phoneNumbers": [{"value": "+1 555 0100"}],
            **more,
        }
        made = self.send("POST", "/Users", body)
        assert made.status_code == 201, made.text
        assert "hunter2" not in made.text
        return made.json()["id"]

    def group(self, name: str, *members: str, **more: Any) -> str:
        body = {"schemas": [GROUP], "displayName": name, "members": [{"value": one} for one in members], **more}
        made = self.send("POST", "/Groups", body)
        assert made.status_code == 201, made.text
        return made.json()["id"]

    def members(self, group: str) -> list[str]:
        return [one["value"] for one in self.send("GET", f"/Groups/{group}").json().get("members", [])]

    def patch(self, path: str, *operations: dict[str, Any]) -> httpx.Response:
        return self.send("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})


@pytest.fixture
def provider(site: Site, running: Running) -> Provider:
    site.add("Ledger", ["The harbour ledger of this year."], ["group:finance@acme.com"])
    return Provider(running)


def events(site: Site, *actions: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return email, action and detail of these events, oldest first."""
    return site.sql(
        "SELECT email, action, detail FROM audit_log WHERE action = ANY(%s) ORDER BY event_id", list(actions)
    )


def test_members_find_what_their_group_may_read_from_the_next_request_on(provider: Provider) -> None:
    running = provider.running
    ada, bob = provider.user(ADA), provider.user(BOB)
    finance = provider.group("Finance", ada)
    assert (running.titles(QUERY, ADA), running.titles(QUERY, BOB)) == (["Ledger"], [])
    assert provider.patch(f"/Groups/{finance}", {"op": "Add", "path": "members", "value": [{"value": bob}]}).is_success
    assert running.titles(QUERY, BOB) == ["Ledger"]
    left = provider.patch(f"/Groups/{finance}", {"op": "Remove", "path": f'members[value eq "{ada}"]'})
    assert (left.status_code, left.content, provider.members(finance)) == (204, b"", [bob])
    assert (running.titles(QUERY, ADA), running.titles(QUERY, BOB)) == ([], ["Ledger"])
    assert provider.send("DELETE", f"/Groups/{finance}").status_code == 204
    assert running.titles(QUERY, BOB) == []


@pytest.mark.parametrize(
    "member",
    [
        {"$ref": None},
        {"$ref": "Users/someone"},
        {"$ref": "https://elsewhere.example/scim/v2/Users/someone", "type": "User"},
        {"display": "Ada"},
    ],
    ids=["Entra ID", "relative", "another address", "display"],
)
def test_a_member_is_removed_by_its_id_whatever_else_the_provider_says_of_it(
    provider: Provider, member: dict[str, Any]
) -> None:
    ada, bob = provider.user(ADA), provider.user(BOB)
    finance = provider.group("Finance", ada, bob)
    for _ in range(2):  # someone who is no member is no error
        left = provider.patch(
            f"/Groups/{finance}", {"op": "Remove", "path": "members", "value": [{**member, "value": ada}]}
        )
        assert (left.status_code, provider.members(finance)) == (204, [bob])
    one = provider.patch(
        f"/Groups/{finance}", {"op": "Remove", "path": "Members", "value": {**member, "value": bob.upper()}}
    )
    assert (one.status_code, provider.members(finance)) == (204, [])
    assert (provider.running.titles(QUERY, ADA), provider.running.titles(QUERY, BOB)) == ([], [])


def test_many_members_of_a_large_group_are_removed_and_added_at_once(provider: Provider, site: Site) -> None:
    group = provider.group("Everyone")
    site.sql(
        "WITH u AS (INSERT INTO scim_users (user_name, emails, active, resource) SELECT n::text, '{}', TRUE, '{}' "
        "FROM generate_series(1, 10000) AS n RETURNING user_id) "
        "INSERT INTO scim_members (group_id, user_id) SELECT %s, user_id FROM u",
        group,
    )
    ids = [row[0] for row in site.sql("SELECT user_id::text FROM scim_members")]
    removed = [{"op": "Remove", "path": "members", "value": [{"value": one} for one in ids[:2000]]}]
    removed += [{"op": "remove", "path": f'members[value eq "{one}"]'} for one in ids[2000:3000]]
    removed.append(
        {"op": "remove", "path": "members[" + " or ".join(f'value eq "{one}"' for one in ids[3000:4000]) + "]"}
    )
    changed = provider.patch(f"/Groups/{group}", *removed)
    assert changed.status_code == 204, changed.text
    assert set(provider.members(group)) == set(ids[4000:])
    added = [{"op": "Add", "path": "members", "value": [{"value": one}]} for one in ids[:1000]]
    changed = provider.patch(f"/Groups/{group}", *added)
    assert changed.status_code == 204, changed.text
    assert len(provider.members(group)) == 7000


def test_the_last_operation_on_a_member_counts_and_attributes_are_returned_if_they_are_asked_for(
    provider: Provider, site: Site
) -> None:
    ada, bob = provider.user(ADA), provider.user(BOB)
    group = provider.group("Finance", ada)
    named = [{"value": ada}, {"value": bob.upper()}]
    answer = provider.patch(
        f"/Groups/{group}?attributes=displayName",
        {"op": "remove", "path": "members", "value": [{"value": "nobody"}]},
        {"op": "remove", "path": "members", "value": named},
        {"op": "add", "path": "members", "value": named},
        {"op": "remove", "path": f'members[value eq "{ada}"]'},
    )
    assert (answer.status_code, answer.json()["displayName"], "members" in answer.json()) == (200, "Finance", False)
    assert provider.members(group) == [bob]
    same = provider.patch(f"/Groups/{group}", {"op": "add", "path": "members", "value": [{"value": bob}]})
    wrong = provider.patch(f"/Groups/{group}", {"op": "add", "path": "members", "value": [{"value": "nobody"}]})
    assert (same.status_code, wrong.status_code, wrong.json()["scimType"]) == (204, 400, "invalidValue")
    ((_, _, detail),) = events(site, "scim_group_change")
    assert (detail["name"], detail["added_ids"], detail["removed_ids"]) == ("Finance", [bob], [ada])


def test_operations_of_a_patch_apply_in_their_order(provider: Provider) -> None:
    ada, bob = provider.user(ADA), provider.user(BOB)
    group = provider.group("Finance", ada)
    changed = provider.patch(
        f"/Groups/{group}",
        {"op": "remove", "path": f'{GROUP}:members[value eq "{ada.upper()}"]'},
        {"op": "replace", "value": {"displayName": "Cash", "members": [{"value": bob}, {"value": ada}]}},
        {"op": "remove", "path": f'members[value eq "{bob}" and type eq "User"]'},
        {"op": "add", "path": "members", "value": {"value": bob}},
        {"op": "remove", "path": "members", "value": [{"value": ada}]},
        {"op": "add", "path": "members", "value": []},
    ).json()
    assert (changed["displayName"], [one["value"] for one in changed["members"]]) == ("Cash", [bob])


def test_nested_groups_count_and_rings_end(provider: Provider) -> None:
    running = provider.running
    inner = provider.group("Treasury", provider.user(ADA))
    finance = provider.group("Finance", inner)
    assert running.titles(QUERY, ADA) == ["Ledger"]
    ring = {"op": "add", "path": "members", "value": [{"value": finance}]}
    assert provider.patch(f"/Groups/{inner}", ring).is_success
    assert provider.patch(f"/Groups/{inner}", {"op": "replace", "value": {"displayName": "Cash"}}).is_success
    assert running.titles(QUERY, ADA) == ["Ledger"]
    own = {"op": "add", "path": "members", "value": [{"value": finance}]}
    assert provider.patch(f"/Groups/{finance}", own).json()["scimType"] == "invalidValue"
    assert provider.patch(f"/Groups/{finance}", {"op": "remove", "path": "members"}).is_success
    assert running.titles(QUERY, ADA) == []


def test_stale_groups_grant_nothing(provider: Provider, site: Site) -> None:
    provider.group("Finance", provider.user(ADA))
    assert provider.running.titles(QUERY, ADA) == ["Ledger"]
    site.sql("UPDATE source_states SET directory_at = %s WHERE source = 'scim'", datetime.now(UTC) - timedelta(days=2))
    assert provider.running.titles(QUERY, ADA) == []
    assert provider.send("GET", "/Groups", params={"count": 1}).status_code == 200
    assert provider.running.titles(QUERY, ADA) == ["Ledger"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "replace", "value": {"active": False}},
        {"op": "replace", "path": "active", "value": False},
        None,
    ],
    ids=["Entra ID", "Okta", "RFC", "deleted"],
)
def test_someone_deactivated_is_refused_with_token_and_key_and_the_keys_stay_revoked(
    provider: Provider, site: Site, operation: dict[str, Any] | None
) -> None:
    running = provider.running
    ada = provider.user(ADA)
    with session(site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, ADA)
    credentials = [{"Authorization": f"Bearer {one}"} for one in (site.earlier_token(ADA), key)]
    credentials.append(site.session(ADA) | OURS)

    def statuses() -> list[tuple[int, str]]:
        answers = [
            running.http.post("/api/rag/search", json={"query": QUERY}, headers=headers) for headers in credentials
        ]
        return [(one.status_code, one.json().get("type", "")) for one in answers]

    assert [status for status, _ in statuses()] == [200, 200, 200]
    if operation is None:
        assert provider.send("DELETE", f"/Users/{ada}").status_code == 204
    else:
        assert provider.patch(f"/Users/{ada}", operation).json()["active"] is False
    ended = [(401, "/problems/api-key-invalid"), (401, "/problems/session-over")]
    assert statuses() == [(401, "/problems/account-inactive"), *ended]
    ((by, _, detail),) = events(site, "offboard")
    assert (by, detail["person"], detail["keys"]) == (PROVISIONER, ADA, [key.split("_")[1]])
    if operation is None:
        provider.user(ADA)  # somebody else, for all that is known
        credentials.append({"Authorization": f"Bearer {site.token(ADA)}"})
        assert statuses() == [(401, "/problems/token-revoked"), *ended, (200, "")]
    else:
        assert provider.patch(f"/Users/{ada}", {"op": "Replace", "path": "active", "value": "True"}).is_success
        assert statuses() == [(200, ""), *ended]


def test_an_address_that_someone_inactive_is_given_is_off_boarded(provider: Provider, site: Site) -> None:
    ada = provider.user(ADA, active=False)
    with session(site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, BOB)
    cookie = site.session(BOB) | OURS
    changed = {"op": "Replace", "path": "userName", "value": BOB}
    assert provider.patch(f"/Users/{ada}", changed).json()["active"] is False
    assert provider.patch(f"/Users/{ada}", {"op": "Replace", "path": "active", "value": True}).is_success
    for headers, slug in (({"Authorization": f"Bearer {key}"}, "api-key-invalid"), (cookie, "session-over")):
        answer = provider.running.http.post("/api/rag/search", json={"query": QUERY}, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (401, f"/problems/{slug}")
    assert [detail["person"] for _, _, detail in events(site, "offboard")] == [ADA, BOB]


def test_a_session_never_opens_scim(provider: Provider, site: Site) -> None:
    """Also not that of the administrator to whom the provider's key belongs."""
    site.settings = site.settings.model_copy(update={"roles": {Role.ADMINISTRATOR: (PROVISIONER,)}})
    cookie = site.session(PROVISIONER) | OURS
    assert provider.running.http.get("/api/documents", headers=cookie).status_code == 200
    for method, path in [("GET", "/Users"), ("POST", "/Users"), ("GET", "/Groups"), ("GET", "/ServiceProviderConfig")]:
        answer = provider.running.http.request(method, f"/scim/v2{path}", headers=cookie, json={})
        assert answer.status_code == 401, (path, answer.text)


def test_once_groups_come_by_scim_tokens_have_none_of_their_own(provider: Provider, site: Site) -> None:
    running = provider.running
    assert running.titles(QUERY, ADA, "finance@acme.com") == ["Ledger"]
    ada = provider.user(ADA)
    assert running.titles(QUERY, ADA, "finance@acme.com") == []
    provider.group("finance@acme.com", ada)
    assert running.titles(QUERY, ADA) == ["Ledger"]


def test_an_answer_of_someone_off_boarded_is_opened_by_no_one_else(provider: Provider) -> None:
    running = provider.running
    provider.group("Finance", ada := provider.user(ADA), provider.user(BOB))
    answer = running.request("POST", "/api/ask", ADA, json={"query": QUERY}).json()["answer_id"]
    running.settle()
    provider.send("DELETE", f"/Users/{ada}")
    assert running.request("GET", f"/api/answers/{answer}", ADA).status_code == 401
    assert running.request("GET", f"/api/answers/{answer}", BOB).status_code == 404


def test_an_address_that_a_user_gave_up_is_refused(provider: Provider) -> None:
    running = provider.running
    ada = provider.user(ADA)
    new = "ada.lovelace@acme.com"
    changed = provider.patch(
        f"/Users/{ada}",
        {"op": "Replace", "path": "userName", "value": new},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": new},
    )
    assert changed.json()["userName"] == new, changed.text
    provider.group("Finance", ada)
    assert running.titles(QUERY, new) == ["Ledger"]
    assert running.request("POST", "/api/rag/search", ADA, json={"query": QUERY}).status_code == 401


def test_the_primary_address_and_the_user_name_are_the_same_person(provider: Provider) -> None:
    mail, name = "ada@acme.com", "ada@acme.onmicrosoft.example"
    provider.group("Finance", provider.user(mail, userName=name))
    for who in (mail, name):
        assert provider.running.titles(QUERY, who) == ["Ledger"]
    taken = provider.send("POST", "/Users", {"schemas": [USER], "userName": mail})
    assert (taken.status_code, taken.json()["scimType"]) == (409, "uniqueness")


def test_two_groups_never_have_the_same_principal(provider: Provider) -> None:
    provider.group("Finance")
    for body in ({"displayName": "finance"}, {"displayName": "Other", "externalId": "finance@acme.com"}):
        made = provider.send("POST", "/Groups", {"schemas": [GROUP], **body})
        assert (made.status_code, made.json()["scimType"]) == (409, "uniqueness"), made.text
    other = provider.group("Other")
    assert (
        provider.patch(f"/Groups/{other}", {"op": "replace", "path": "displayName", "value": "Finance"}).status_code
        == 409
    )
    cases = [
        ("Finance", None, "group:finance@acme.com"),
        ("Site Leads (EMEA)", "3f1c", "group:site-leads-emea@acme.com"),
        ("Board", "board@corp.example", "group:board@corp.example"),
        ("Eng@Acme.com", "00g1", "group:eng@acme.com"),
    ]
    assert [(name, own, principal_of(name, own, "acme.com")) for name, own, _ in cases] == cases


def test_filters_and_pages(provider: Provider) -> None:
    ids = {email: provider.user(email, externalId=f"x-{email}") for email in (ADA, BOB)}
    group = provider.group("Finance", ids[ADA], externalId="00g1")
    found = {
        'userName eq "ADA@acme.com"': [ids[ADA]],
        f'externalId eq "x-{BOB}"': [ids[BOB]],
        f'id eq "{ids[ADA]}" and userName eq "{BOB}"': [],
        f'userName eq "{ADA}" or userName eq "{BOB}"': [ids[ADA], ids[BOB]],
        f'emails[type eq "work" and value eq "{ADA}"]': None,
        'userName sw "a"': None,
        "userName eq": None,
    }
    for text, expected in found.items():
        answer = provider.send("GET", "/Users", params={"filter": text}).json()
        shown = [one["id"] for one in answer["Resources"]] if "Resources" in answer else answer.get("scimType")
        assert shown == ("invalidFilter" if expected is None else expected), (text, answer)
    for text in ('displayName eq "finance"', 'externalId eq "00g1"', f'id eq "{group}" and members eq "{ids[ADA]}"'):
        answer = provider.send("GET", "/Groups", params={"filter": text, "excludedAttributes": "members"}).json()
        assert [(one["id"], "members" in one) for one in answer["Resources"]] == [(group, False)], text
    page = provider.send("GET", "/Users", params={"startIndex": 2, "count": 1}).json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (2, 2, 1)
    assert [one["id"] for one in page["Resources"]] == [ids[BOB]]


def test_a_refused_request_changes_nothing(provider: Provider, site: Site) -> None:
    ada = provider.user(ADA)
    group = provider.group("Finance", ada)
    before = provider.send("GET", f"/Groups/{group}").json()
    nobody = "00000000-0000-4000-8000-00000000dead"
    for operations in (
        [{"op": "remove", "path": "members"}, {"op": "add", "path": "members", "value": [{"value": nobody}]}],
        [{"op": "remove", "path": "members"}, {"op": "replace", "path": "displayName", "value": "()"}],
        [{"op": "remove", "path": "members"}, {"op": "frobnicate", "path": "members"}],
        [{"op": "remove"}],
    ):
        answer = provider.patch(f"/Groups/{group}", *operations)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/scim+json")
        assert answer.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert provider.send("GET", f"/Groups/{group}").json() == before
    for body in (
        {"schemas": [USER], "userName": "x" * 5000},
        {"schemas": [USER], "userName": "a\0b"},
        {"schemas": [USER], "userName": BOB, "active": "perhaps"},
        {"schemas": [USER]},
    ):
        assert provider.send("POST", "/Users", body).status_code == 400, body
    assert provider.send("GET", "/Users", params={"filter": 'userName eq "a\0b"'}).status_code == 400
    assert provider.running.titles(QUERY, ADA) == ["Ledger"]
    for method, path, status in (
        ("GET", f"/Users/{nobody}", 404),
        ("GET", "/Users/1", 404),
        ("GET", "/Robots", 404),
        ("POST", "/Schemas", 405),
        ("POST", "/Users", 400),
        ("GET", "/a/b/c", 404),
    ):
        answer = provider.send(method, path, [] if method == "POST" else None)
        assert (answer.status_code, answer.json()["status"]) == (status, str(status)), (path, answer.text)


def test_a_scim_key_opens_scim_and_nothing_else_and_other_keys_do_not(provider: Provider, site: Site) -> None:
    running = provider.running
    with session(site.settings.postgres_dsn) as connection:
        admin = api_keys.create(connection, ADA, admin=True)
    scim = {"Authorization": f"Bearer {provider.key}"}
    for method, path in (
        ("POST", "/api/rag/search"),
        ("GET", "/api/sources"),
        ("GET", "/api/documents"),
        ("GET", "/api/audit"),
    ):
        answer = running.http.request(method, path, headers=scim, json={"query": QUERY} if method == "POST" else None)
        assert (answer.status_code, answer.json()["type"]) == (401, "/problems/scim-key"), path
    for credential in (admin, site.token(ADA, admin=True), provider.key + "x", ""):
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        answer = running.http.get("/scim/v2/Users", headers=headers)
        assert (answer.status_code, answer.json()["status"]) == (401, "401")
        assert answer.headers["content-type"] == "application/scim+json"
    running.settle()
    reasons = [detail["reason"] for _, _, detail in events(site, "key_refused")]
    assert Counter(reasons) == {"scope": 5, "secret": 1}


def test_the_audit_log_says_who_was_created_changed_and_deactivated(provider: Provider, site: Site) -> None:
    ada = provider.user(ADA)
    group = provider.group("Finance", ada)
    provider.patch(f"/Groups/{group}", {"op": "remove", "path": "members"})
    provider.patch(f"/Users/{ada}", {"op": "replace", "path": "active", "value": False})
    provider.patch(f"/Users/{ada}", {"op": "replace", "path": "active", "value": False})
    provider.send("DELETE", f"/Users/{ada}")
    provider.send("DELETE", f"/Groups/{group}")
    rows = site.sql(
        "SELECT email, action, detail::text FROM audit_log WHERE action LIKE 'scim%%' ORDER BY event_id", *()
    )
    assert [action for _, action, _ in rows] == [
        "scim_create",
        "scim_group_create",
        "scim_group_change",
        "scim_deactivate",
        "scim_delete",
        "scim_group_delete",
    ]
    assert {email for email, _, _ in rows} == {PROVISIONER}
    assert ADA in rows[0][2]
    assert ada in rows[1][2]
    kept = site.sql("SELECT string_agg(resource::text, '') FROM scim_users")[0][0] or ""
    assert "hunter2" not in "".join([kept, *(detail for _, _, detail in rows)])


@pytest.mark.parametrize(
    ("operation", "active"),
    [
        ({"op": "Replace", "path": "active", "value": "False"}, False),  # Entra ID
        ({"op": "Replace", "value": {"active": "False"}}, False),
        ({"op": "Replace", "path": "active", "value": "True"}, True),
        ({"op": "replace", "value": {"active": False}}, False),  # Okta
        ({"op": "replace", "path": f"{USER}:active", "value": False}, False),
        ({"op": "Add", "value": {"active": False, f"{USER}:userName": ADA}}, False),
    ],
)
def test_providers_end_an_account_each_in_its_own_form(
    provider: Provider, operation: dict[str, Any], active: bool
) -> None:
    user = provider.user(ADA, active=not active)
    changed = provider.patch(f"/Users/{user}", operation)
    assert changed.is_success, changed.text
    assert provider.send("GET", f"/Users/{user}").json()["active"] is active


@pytest.mark.parametrize("active", ["False", "false", False])
def test_an_account_that_is_created_or_replaced_may_have_its_state_as_text(provider: Provider, active: Any) -> None:
    user = provider.user(ADA, active=active)
    assert provider.send("GET", f"/Users/{user}").json()["active"] is False
    body = {"schemas": [USER], "userName": ADA, "active": "True"}
    assert provider.send("PUT", f"/Users/{user}", body).json()["active"] is True


@pytest.mark.parametrize("text", [f"userName eq {ADA}", f'userName eq "{ADA}"', f'userName Eq "{ADA.upper()}"'])
def test_a_filter_may_leave_out_the_quotes_of_a_value(provider: Provider, text: str) -> None:
    user = provider.user(ADA)
    provider.user(BOB)
    found = provider.send("GET", "/Users", params={"filter": text})
    assert [one["id"] for one in found.json()["Resources"]] == [user], found.text


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("active eq true", [ADA]),
        ('active eq "True"', [ADA]),
        ("active eq True", [ADA]),
        ('active eq "False"', [BOB]),
        ("active eq true or active eq false", [ADA, BOB]),
        ("active eq true and active eq false", []),
        ('active eq "perhaps"', None),
    ],
)
def test_accounts_are_found_by_their_state(provider: Provider, text: str, who: list[str] | None) -> None:
    provider.user(ADA)
    provider.user(BOB, active=False)
    found = provider.send("GET", "/Users", params={"filter": text})
    if who is None:
        assert found.status_code == 400
    else:
        assert sorted(one["userName"] for one in found.json()["Resources"]) == who, found.text


def test_only_attributes_that_are_used_are_kept(provider: Provider, site: Site) -> None:
    ada = provider.user(ADA, title="Countess", addresses=[{"locality": "London"}])
    kept = site.sql("SELECT resource::text FROM scim_users")[0][0]
    for left_out in ("hunter2", "555", "Countess", "London"):
        assert left_out not in kept
    for operation in (
        {"op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "x"},
        {"op": "Replace", "path": 'phoneNumbers[type eq "mobile"].value', "value": "1"},
        {"op": "Add", "value": {'emails[type eq "home"].value': "ada@home.example", "name.givenName": "Ada"}},
        {"op": "replace", "value": {"id": ada, "displayName": "Ada"}},
    ):
        assert provider.patch(f"/Users/{ada}", operation).status_code == 200, operation
    shown = provider.send("GET", f"/Users/{ada}").json()
    assert (shown["name"]["givenName"], shown["displayName"]) == ("Ada", "Ada")
    assert [one["value"] for one in shown["emails"]] == [ADA, "ada@home.example"]


def test_the_public_conformance_checks_pass(provider: Provider, show: Callable[[str], None]) -> None:
    """Run all checks of scim2-tester, by the authors of scim2-models. Source: https://scim2-tester.readthedocs.io"""
    # imported here, because reading all models takes seconds of every process that collects tests
    import httpx2
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_tester import Status, check_server

    headers = {"Authorization": f"Bearer {provider.key}"}
    with httpx2.Client(base_url=f"{provider.running.url}/scim/v2", headers=headers, timeout=60) as http:
        results = check_server(SyncSCIMClient(http))
    width = max(len(one.title) for one in results)
    show("\n".join(f"{one.status.name:9} {one.title:{width}} {one.reason or ''}"[:150] for one in results))
    counts = Counter(one.status.name for one in results)
    show(", ".join(f"{count} {name.lower()}" for name, count in counts.most_common()))
    failed = [(one.title, one.reason) for one in results if one.status in {Status.ERROR, Status.CRITICAL}]
    assert failed == [], "\n".join(f"{title}: {reason}" for title, reason in failed)
    assert counts["SUCCESS"] > 20
