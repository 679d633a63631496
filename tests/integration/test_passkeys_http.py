"""Passkeys: who adds one, what is accepted as a sign-in, and everything that is refused."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from assets.upkeep.retention import prune_expired
from orchestration.cli import run
from resources import keys
from resources.core.domain import Role
from resources.stores.offboarding import offboard
from resources.stores.postgres import session
from serving.identity.sign_in.attempts import Attempts
from serving.identity.sign_in.passkeys import MOST
from sql import statement
from sql.passkeys import PasskeyReads
from tests.fixtures.authenticator import Authenticator, decoded
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until

ANN, BOB = "ann@acme.com", "bob@acme.com"
ORIGIN = "https://search.acme.com"
PAGE = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
FORM = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
BINDING, SESSION = "__Host-concordance-sign-in", "__Host-concordance"


@pytest.fixture
def site(site: Site) -> Site:
    """An installation without a provider, at an address with https."""
    site.settings = site.settings.model_copy(update={"oidc_providers": None, "public_url": ORIGIN})
    return site


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    with site.running() as running:
        yield running


class Tab:
    """A browser without a jar, so that a test says which cookies are sent."""

    def __init__(self, running: Running, session: dict[str, str] | None = None) -> None:
        self.running = running
        self.session = (session or {}).get("Cookie", "")
        self.binding = ""

    def post(self, path: str, headers: dict[str, str], **more: Any) -> httpx.Response:
        cookies = "; ".join(filter(None, [self.session, self.binding]))
        request = httpx.Request("POST", self.running.url + path, headers={**headers, "Cookie": cookies}, **more)
        return httpx.Client(trust_env=False, timeout=30).send(request)

    def offer(self) -> dict[str, Any]:
        """Ask for what a passkey signs."""
        answer = self.post("/sign-in/passkey/options", PAGE)
        assert answer.status_code == 200, answer.text
        self.binding = f"{BINDING}={answer.cookies[BINDING]}"
        return answer.json()

    def send(self, offer: dict[str, Any], credential: str, after: str = "/", **headers: str) -> httpx.Response:
        """Send what was signed."""
        data = {"state": offer["state"], "credential": credential, "next": after}
        return self.post("/sign-in/passkey", FORM | headers, data=data)

    def sign_in(self, passkey: Authenticator, **client: Any) -> httpx.Response:
        offer = self.offer()
        return self.send(offer, passkey.sign(offer["options"], client.pop("origin", ORIGIN), **client))

    def addition(self) -> dict[str, Any]:
        """Ask for what a passkey is made from."""
        answer = self.post("/me/passkeys/options", PAGE)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def store(self, offer: dict[str, Any], credential: str, name: str = "Laptop") -> httpx.Response:
        body = {"name": name, "state": offer["state"], "credential": credential}
        return self.post("/me/passkeys", PAGE, json=body)

    def add(self, device: Authenticator | None = None, name: str = "Laptop") -> Authenticator:
        """Register a passkey of the person who is signed in."""
        offer = self.addition()
        passkey, credential = (device or Authenticator.new()).create(offer["options"], ORIGIN)
        answer = self.store(offer, credential, name)
        assert answer.status_code == 201, answer.text
        return passkey


def signed_in(site: Site, email: str, *, administrator: bool = False) -> dict[str, str]:
    """A browser's session that began by a link."""
    cookie = site.session(email)
    site.sql("UPDATE sessions SET provider = 'link', administrator = %s WHERE email = %s", administrator, email)
    return cookie


@pytest.fixture
def ann(site: Site, running: Running) -> Tab:
    return Tab(running, signed_in(site, ANN))


def said(answer: httpx.Response) -> tuple[int, str]:
    """The status, and what the page or the problem says."""
    if answer.headers["content-type"].startswith("application/problem"):
        return answer.status_code, answer.json()["detail"]
    found = re.search(r"<p role=alert>(.*?)</p>", answer.text)
    return answer.status_code, found[1] if found else ""


def reasons(site: Site, running: Running) -> list[tuple[str, str]]:
    running.settle()
    return site.sql(
        "SELECT email, detail ->> 'reason' FROM audit_log WHERE action = 'sign_in_refused' ORDER BY event_id"
    )


def sessions(site: Site) -> list[tuple[str, str, bool]]:
    return site.sql("SELECT email, provider, administrator FROM sessions ORDER BY created_at")


def test_a_passkey_signs_its_person_in(site: Site, running: Running, ann: Tab) -> None:
    passkey = ann.add(name=" My \n laptop ")
    offer = Tab(running).offer()
    assert (offer["options"]["rpId"], offer["options"]["userVerification"]) == ("search.acme.com", "required")
    assert offer["options"].get("allowCredentials", []) == []  # it tells nobody whose passkeys there are
    browser = Tab(running)
    offer = browser.offer()
    answer = browser.send(offer, passkey.sign(offer["options"], ORIGIN), "/history?older=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/history?older=1")
    cookie = {"Cookie": f"{SESSION}={answer.cookies[SESSION]}"}
    page = running.http.get("/me", headers=cookie).text
    assert f"Signed in as <b>{ANN}</b>." in page
    assert "My laptop" in page
    assert sessions(site)[-1] == (ANN, "passkey", False)
    running.settle()
    rows = site.sql(
        "SELECT action, email, detail FROM audit_log WHERE action IN ('passkey_add', 'sign_in') ORDER BY event_id"
    )
    ((_, owner, added), (_, who, by)) = rows
    assert (owner, added["name"], who, by["provider"]) == (ANN, "My laptop", ANN, "passkey")
    ((count, used),) = site.sql("SELECT sign_count, used_at IS NOT NULL FROM passkeys")
    assert (count, used) == (0, True)
    exported = running.http.get("/api/me/export", headers=cookie).json()
    assert [(one["name"], one["used_at"] is not None) for one in exported["passkeys"]] == [("My laptop", True)]


def test_a_passkey_gives_no_role_that_settings_do_not_give(site: Site, running: Running) -> None:
    chief = Tab(running, signed_in(site, ANN, administrator=True))
    assert chief.running.http.get("/admin/keys", headers={"Cookie": chief.session}).status_code == 200
    passkey = chief.add()
    for roles, seen in (({}, 403), ({Role.ADMINISTRATOR: (ANN,)}, 200)):
        site.settings = site.settings.model_copy(update={"roles": roles})
        with site.running() as later:
            cookie = Tab(later).sign_in(passkey).cookies[SESSION]
            assert later.http.get("/admin/keys", headers={"Cookie": f"{SESSION}={cookie}"}).status_code == seen
    assert {administrator for _, by, administrator in sessions(site) if by == "passkey"} == {False}


def test_the_first_page_says_how_the_first_person_gets_in(running: Running) -> None:
    page = running.http.get("/").text
    assert "concordance sign-in you@company.com" in page
    assert "--administrator" in page
    assert "not set up" not in page


def test_sign_ins_that_are_refused(site: Site, running: Running, ann: Tab) -> None:
    passkey = ann.add(Authenticator.new(count=7))
    bob = Tab(running, signed_in(site, BOB))
    of_bob = bob.add()
    before = sessions(site)
    refused: list[tuple[str, tuple[int, str]]] = []

    def note(case: str, answer: httpx.Response) -> None:
        refused.append((case, said(answer)))

    note("another site", Tab(running).sign_in(passkey, origin="https://search.acme.com.evil.example"))
    note("a page without TLS", Tab(running).sign_in(passkey, origin="http://search.acme.com"))
    note("a frame of another site", Tab(running).sign_in(passkey, crossOrigin=True))
    note("no user verification", Tab(running).sign_in(passkey.behaving(verifies=False)))
    note("another kind of signature", Tab(running).sign_in(passkey, type="webauthn.create"))
    note("another challenge", Tab(running).sign_in(passkey, challenge="AAAA"))
    note("unknown", Tab(running).sign_in(Authenticator.new(user_handle=passkey.user_handle)))
    note("another key", Tab(running).sign_in(passkey.behaving(key=of_bob.key)))
    note("as another person", Tab(running).sign_in(passkey.behaving(user_handle=of_bob.user_handle)))
    note("of another passkey", Tab(running).sign_in(of_bob.behaving(credential_id=passkey.credential_id)))
    tab = Tab(running)
    offer = tab.offer()
    elsewhere = offer["options"] | {"rpId": "acme.com"}
    note("another host", tab.send(offer, passkey.sign(elsewhere, ORIGIN)))
    other = tab.offer()
    note("of another offer", tab.send(other, passkey.sign(offer["options"], ORIGIN)))
    thief = Tab(running)
    thief.offer()
    note("another browser", thief.send(other, passkey.sign(other["options"], ORIGIN)))
    without = Tab(running)
    note("no cookie", without.send(other, passkey.sign(other["options"], ORIGIN)))
    addition = ann.addition()
    signed = passkey.sign({"rpId": "search.acme.com", "challenge": addition["options"]["challenge"]}, ORIGIN)
    note("the state of an addition", tab.send(addition, signed))
    note("no state", tab.send({"state": ""}, passkey.sign(other["options"], ORIGIN)))
    assert {case: status for case, (status, _) in refused} == dict.fromkeys((case for case, _ in refused), 403)
    assert sessions(site) == before
    expected = [
        *[(ANN, "passkey-invalid")] * 2, ("", "passkey-malformed"), *[(ANN, "passkey-invalid")] * 3, ("", "passkey-unknown"),
        (ANN, "passkey-invalid"), (ANN, "passkey-of-another"), (ANN, "passkey-of-another"), *[(ANN, "passkey-invalid")] * 2,
        ("", "browser"), ("", "browser"), ("", "state"), ("", "state"),
    ]  # fmt: skip
    assert reasons(site, running) == expected
    about_passkeys = {text for _, (_, text) in refused if "passkey" in text}
    assert len(about_passkeys) == 1  # whoever guesses learns nothing of what there is


def test_what_was_signed_works_once_and_for_five_minutes(site: Site, running: Running, ann: Tab) -> None:
    passkey, tab = ann.add(), Tab(running)
    offer = tab.offer()
    credential = passkey.sign(offer["options"], ORIGIN)
    assert [tab.send(offer, credential).status_code for _ in range(3)] == [303, 403, 403]
    late = tab.offer()
    credential = passkey.sign(late["options"], ORIGIN)
    foreign = tab.send(late, credential, **{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    assert reasons(site, running) == [(ANN, "replayed")] * 2
    old = Attempts(keys.secret_keys(site.settings), "passkey-sign-in")
    state = old.signed("one", datetime.now(UTC) - timedelta(seconds=1), browser="any")
    assert said(tab.send({"state": state}, credential)) == (
        403,
        "This took longer than five minutes. Please try again.",
    )


def test_a_copy_is_refused_by_its_counter(site: Site, running: Running, ann: Tab) -> None:
    passkey = ann.add(Authenticator.new(count=3))
    assert Tab(running).sign_in(passkey.behaving(count=5)).status_code == 303
    for count in (5, 4, 0):
        assert Tab(running).sign_in(passkey.behaving(count=count)).status_code == 403
    assert Tab(running).sign_in(passkey.behaving(count=6)).status_code == 303
    assert reasons(site, running) == [(ANN, "passkey-copied")] * 3
    synced = Tab(running, signed_in(site, BOB)).add()  # does not count
    assert [Tab(running).sign_in(synced).status_code for _ in range(2)] == [303, 303]
    assert site.sql("SELECT email, sign_count FROM passkeys ORDER BY email") == [(ANN, 6), (BOB, 0)]


def test_additions_that_are_refused(site: Site, running: Running, ann: Tab) -> None:
    offer, device = ann.addition(), Authenticator.new()
    options = offer["options"]
    chosen = options["authenticatorSelection"]
    assert (chosen["residentKey"], chosen["userVerification"]) == ("required", "required")
    assert (options["rp"]["id"], options["user"]["name"], options["attestation"]) == ("search.acme.com", ANN, "none")
    assert ANN.encode() not in decoded(options["user"]["id"])
    _, right = device.create(options, ORIGIN)
    wrong = [
        device.create(options, "https://evil.example")[1],
        device.create(options, ORIGIN, crossOrigin=True)[1],
        device.create(options, ORIGIN, challenge="AAAA")[1],
        device.create(options, ORIGIN, type="webauthn.get")[1],
        device.create(options | {"rp": {"id": "acme.com"}}, ORIGIN)[1],
        device.behaving(verifies=False).create(options, ORIGIN)[1],
        Authenticator(device.key, b"x" * 1024).create(options, ORIGIN)[1],
    ]
    assert {said(ann.store(offer, one)) for one in wrong} == {
        (400, "The browser's passkey cannot be verified. Please add it again.")
    }
    bob = Tab(running, signed_in(site, BOB))
    assert said(bob.store(offer, right))[1].startswith("This was begun in another session")
    assert ann.store(offer, right, name=" ").status_code == 400
    assert ann.store(offer, right).status_code == 201
    assert said(ann.store(offer, right))[1].startswith("This was begun in another session, or is done already.")
    again = bob.addition()
    assert bob.store(again, device.create(again["options"], ORIGIN)[1]).status_code == 400  # Ann's
    assert site.sql("SELECT email FROM passkeys") == [(ANN,)]
    excluded = ann.addition()["options"]
    assert [decoded(one["id"]) for one in excluded["excludeCredentials"]] == [device.credential_id]
    assert excluded["user"]["id"] == options["user"]["id"]  # one account for all passkeys of a person


def test_only_a_browser_that_signed_in_lately_adds_one(site: Site, running: Running, ann: Tab) -> None:
    for who in ({"Authorization": f"Bearer {site.token(ANN, admin=True)}"}, {}):
        answer = running.http.post("/me/passkeys/options", headers=who)
        assert answer.status_code == (403 if who else 401)
    foreign = ann.post("/me/passkeys/options", {"Origin": "https://evil.example", "X-Concordance": "1"})
    bare = ann.post("/me/passkeys/options", FORM)
    assert (foreign.status_code, bare.status_code) == (403, 403)
    offer = ann.addition()
    _, credential = Authenticator.new().create(offer["options"], ORIGIN)
    page = running.http.get("/me", headers={"Cookie": ann.session}).text
    assert 'id="new-passkey"' in page
    site.sql("UPDATE sessions SET created_at = created_at - interval '61 minutes'")
    assert said(ann.post("/me/passkeys/options", PAGE))[1].startswith("You signed in too long ago to add a passkey.")
    assert ann.store(offer, credential).status_code == 400
    page = running.http.get("/me", headers={"Cookie": ann.session}).text
    assert 'id="new-passkey"' not in page
    assert site.sql("SELECT count(*) FROM passkeys") == [(0,)]


def test_a_person_has_ten(site: Site, running: Running, ann: Tab) -> None:
    waiting = ann.addition()
    for number in range(MOST):
        ann.add(name=f"Key {number}")
    assert ann.post("/me/passkeys/options", PAGE).status_code == 413  # `quota-exceeded`
    _, credential = Authenticator.new().create(waiting["options"], ORIGIN)
    assert ann.store(waiting, credential).status_code == 400
    assert site.sql("SELECT count(*) FROM passkeys") == [(MOST,)]


def test_a_removed_passkey_ends_what_it_began(site: Site, running: Running, ann: Tab) -> None:
    lost, kept = ann.add(name="Lost phone"), ann.add(name="Laptop")
    thief, own = (Tab(running).sign_in(one).cookies[SESSION] for one in (lost, kept))
    ((lost_id,),) = site.sql("SELECT passkey_id::text FROM passkeys WHERE name = 'Lost phone'")

    def remove(cookie: str, passkey_id: str = lost_id) -> int:
        return running.http.delete(f"/me/passkeys/{passkey_id}", headers={**PAGE, "Cookie": cookie}).status_code

    assert remove(signed_in(site, BOB)["Cookie"]) == 404  # it does not exist for anyone else
    assert remove(f"{SESSION}={own}", "nonsense") == 404
    assert remove(f"{SESSION}={own}") == 200
    assert remove(f"{SESSION}={own}") == 404
    alive = [running.http.get("/me", headers={"Cookie": f"{SESSION}={one}"}).status_code for one in (thief, own)]
    assert alive == [401, 200]
    assert Tab(running).sign_in(lost).status_code == 403
    assert Tab(running).sign_in(kept).status_code == 303
    running.settle()
    rows = site.sql("SELECT action, email FROM audit_log WHERE action IN ('passkey_remove', 'session_ended')")
    assert rows == [("passkey_remove", ANN), ("session_ended", ANN)]


def test_a_removal_that_fails_removes_nothing(
    site: Site, running: Running, ann: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated removal of a passkey that is gone would not end the sessions that it began."""
    thief = Tab(running).sign_in(ann.add()).cookies[SESSION]
    ((passkey_id,),) = site.sql("SELECT passkey_id::text FROM passkeys")

    def remove() -> int:
        return running.http.delete(f"/me/passkeys/{passkey_id}", headers={**PAGE, "Cookie": ann.session}).status_code

    with psycopg.connect(site.settings.postgres_dsn) as holder, monkeypatch.context() as patch:
        patch.setattr("serving.http.database.STATEMENT_SECONDS", 0.5)
        patch.setattr("serving.http.database.CALL_SECONDS", 0.5)
        holder.execute("SELECT 1 FROM sessions WHERE provider = 'passkey' FOR UPDATE")
        assert remove() == 503
    assert remove() == 200
    assert running.http.get("/me", headers={"Cookie": f"{SESSION}={thief}"}).status_code == 401


def test_a_sign_in_with_a_passkey_that_is_removed_meanwhile_begins_no_session(
    site: Site, running: Running, ann: Tab
) -> None:
    passkey = ann.add()
    with psycopg.connect(site.settings.postgres_dsn) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("LOCK TABLE sessions IN SHARE MODE")
        signing_in = pool.submit(Tab(running).sign_in, passkey)
        until(lambda: site.waits("INSERT INTO sessions"), "the session that waits")
        holder.execute("DELETE FROM passkeys")
        holder.commit()
        assert said(signing_in.result()) == (403, "This passkey was removed. Sign in another way.")
    assert [by for _, by, _ in sessions(site)] == ["link"]
    assert reasons(site, running) == [(ANN, "passkey-removed")]


def test_a_removal_ends_a_session_that_begins_meanwhile(site: Site, running: Running, ann: Tab) -> None:
    ann.add()
    ((passkey_id,),) = site.sql("SELECT passkey_id::text FROM passkeys")
    path, headers = f"/me/passkeys/{passkey_id}", {**PAGE, "Cookie": ann.session}
    with psycopg.connect(site.settings.postgres_dsn) as signing_in, ThreadPoolExecutor(1) as pool:
        signing_in.execute(statement("sign_in", "session_insert").encode(), by_passkey(passkey_id))
        removing = pool.submit(running.http.delete, path, headers=headers)
        until(lambda: removing.done() or site.waits("DELETE FROM passkeys"), "the removal, or its wait")
        signing_in.commit()
        assert removing.result().status_code == 200
    assert [by for _, by, _ in sessions(site)] == ["link"]


@pytest.mark.parametrize("added", [True, False], ids=["addition", "sign-in"])
def test_what_begins_while_an_operator_ends_a_persons_sessions_ends_too(
    site: Site, running: Running, ann: Tab, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, added: bool
) -> None:
    ann.add()
    ((passkey_id,),) = site.sql("SELECT passkey_id::text FROM passkeys")
    ((session_id,),) = site.sql("SELECT session_id FROM sessions")
    now = datetime.now(UTC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    with psycopg.connect(site.settings.postgres_dsn) as beginning, ThreadPoolExecutor(1) as pool:
        if added:
            text = PasskeyReads.declared["insert_passkey"].text
            values = {
                "passkey_id": str(uuid.uuid4()), "session_id": session_id, "email": ANN, "since": now - timedelta(hours=1),
                "user_handle": b"1", "credential_id": b"1", "public_key": b"1", "sign_count": 0, "name": "Phone", "now": now, "most": MOST,
            }  # fmt: skip
        else:
            text, values = statement("sign_in", "session_insert"), by_passkey(passkey_id)
        assert beginning.execute(text.encode(), values).rowcount == 1
        ending = pool.submit(run, ["session", "end", "--email", ANN])
        until(lambda: ending.done() or site.waits("DELETE FROM"), "the end of the sessions, or its wait")
        beginning.commit()
        assert ending.result() == 0
    assert site.sql("SELECT (SELECT count(*) FROM passkeys), count(*) FROM sessions") == [(0, 0)]


def test_an_operator_ends_sessions_while_a_passkey_is_removed(
    site: Site, running: Running, ann: Tab, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The command locks sessions before passkeys, the removal passkeys before sessions: Postgres ends one of them."""
    ann.add()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    with psycopg.connect(site.settings.postgres_dsn) as removing, ThreadPoolExecutor(1) as pool:
        removing.execute("SELECT 1 FROM passkeys FOR UPDATE")
        ending = pool.submit(run, ["session", "end", "--email", ANN])
        until(lambda: ending.done() or site.waits("DELETE FROM"), "the end of the sessions, or its wait")
        with suppress(psycopg.errors.DeadlockDetected):  # on a machine that took longer than a second until here
            removing.execute("SELECT 1 FROM sessions FOR UPDATE")
        removing.commit()
        assert ending.result() == 0
    assert site.sql("SELECT (SELECT count(*) FROM passkeys), count(*) FROM sessions") == [(0, 0)]
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'session_ended'") == [(1,)]


def by_passkey(passkey_id: str) -> dict[str, Any]:
    """What `session_insert` stores of a sign-in of Ann."""
    now = datetime.now(UTC)
    return {
        "session_id": str(uuid.uuid4()), "secret_hash": "new", "email": ANN, "provider": "passkey", "subject": passkey_id,
        "passkey_id": passkey_id, "browser": "", "groups": [], "groups_omitted": False, "secrets": None, "administrator": False,
        "now": now, "expires_at": now + timedelta(days=1),
    }  # fmt: skip


def test_passkeys_end_with_the_account(
    site: Site, running: Running, ann: Tab, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    passkey = ann.add()
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
    assert said(Tab(running).sign_in(passkey))[1] == "This account is deactivated. Ask your administrator."
    with session(site.settings.postgres_dsn) as connection:
        offboard(connection, {ANN: "left"}, by="scim")
    site.sql("UPDATE people SET active = TRUE")
    assert site.sql("SELECT count(*) FROM passkeys") == [(0,)]
    ((ended,),) = site.sql("SELECT jsonb_array_length(detail -> 'passkeys') FROM audit_log WHERE action = 'offboard'")
    assert ended == 1
    assert Tab(running).sign_in(passkey).status_code == 403  # returning restores none
    bob = Tab(running, signed_in(site, BOB))
    of_bob = bob.add()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    assert run(["session", "end", "--email", BOB]) == 0
    assert Tab(running).sign_in(of_bob).status_code == 403
    running.settle()
    assert site.sql("SELECT email, detail ->> 'reason' FROM audit_log WHERE action = 'passkey_remove'") == [
        (BOB, "ended by an operator")
    ]


OTHERS: dict[str, dict[str, Any]] = {
    "a provider": {
        "oidc_providers": SecretStr(json.dumps([{"name": "A", "issuer": "https://a.example", "client_id": "c"}]))
    },
    "no address": {"public_url": None},
    "no name": {"public_url": "https://192.0.2.1"},
    "no TLS": {"public_url": "http://search.acme.com"},
}


@pytest.mark.parametrize("why", OTHERS)
def test_there_are_none_where_they_cannot_be_right(site: Site, running: Running, ann: Tab, why: str) -> None:
    passkey = ann.add()
    cookie = Tab(running).sign_in(passkey).cookies[SESSION]
    tab = Tab(running)
    offer = tab.offer()
    signed = passkey.sign(offer["options"], ORIGIN)
    site.settings = site.settings.model_copy(update=OTHERS[why])
    with site.running() as other:
        there = Tab(other)
        for path in ("/sign-in/passkey/options", "/me/passkeys/options"):
            there.session = ann.session
            assert there.post(path, {"Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}).status_code in {401, 404}
        there.binding = tab.binding
        assert (
            there.post(
                "/sign-in/passkey",
                {"Sec-Fetch-Site": "same-origin"},
                data={"state": offer["state"], "credential": signed},
            ).status_code
            == 404
        )
        assert "passkey" not in other.http.get("/sign-in").text
        for name in ("concordance", SESSION):  # a session that a passkey began ends as well
            assert other.http.get("/me", headers={"Cookie": f"{name}={cookie}"}).status_code == 401
    prune_expired(site.settings)
    assert site.sql("SELECT count(*) FROM passkeys") == [(0 if why == "a provider" else 1,)]


def test_malformed_credentials_are_refused_and_never_an_error(site: Site, running: Running, ann: Tab) -> None:
    passkey = ann.add()
    tab = Tab(running)
    offer = tab.offer()
    right = json.loads(passkey.sign(offer["options"], ORIGIN))
    text = st.one_of(st.none(), st.integers(), st.text(max_size=40), st.binary(max_size=60).map(lambda one: one.hex()))

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        field=st.sampled_from(["clientDataJSON", "authenticatorData", "signature", "userHandle"]),
        value=text,
        whole=text,
    )
    def send(field: str, value: Any, whole: Any) -> None:
        broken = right | {"response": right["response"] | {field: value}}
        for one in (
            json.dumps(broken),
            json.dumps(right | {"id": value, "rawId": whole}),
            json.dumps(whole),
            str(whole),
        ):
            assert tab.send(offer, one).status_code in {403, 429}

    site.sql("TRUNCATE rate_buckets")
    send()
    assert [by for _, by, _ in sessions(site)] == ["link"]
