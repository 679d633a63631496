"""Sign-in with Google for Drive: who may start it, what Google receives, what is stored, and how it fails."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import jwt
import pytest
from cryptography.fernet import Fernet
from litestar import Litestar, Request, Response, get, post
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr

from orchestration.cli import run
from resources import keys
from resources.core.retrying import Tally
from resources.keys import secret_key
from resources.sources.drive import READ
from resources.sources.drive.auth import Authority
from resources.sources.drive.consent import endpoints
from resources.stores import credentials
from serving.identity.sign_in.attempts import Attempts
from simulators import serve
from tests.fixtures.drive import DriveSite
from tests.fixtures.serving import PUBLIC_URL, Running, Site

BOB, ROOT = "bob@acme.com", "root@acme.com"
ACCOUNT, CLIENT, SECRET = "sync@acme.com", "client-1.apps.example", "client-secret-5d1"
REFRESH, CODE = "1//refresh-token-9f3", "4/0code-77a"
PURPOSE = "google-sign-in"
START, CALLBACK = "/api/auth/google", "/api/auth/google/callback"


@dataclass
class Google:
    """A double of Google's consent page and token endpoint; the fields make it refuse, or leave something out."""

    denied: bool = False
    error: str | None = None
    tokens: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] | None = None
    consents: list[dict[str, str]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)

    def app(self) -> Litestar:
        @get("/o/oauth2/v2/auth", sync_to_thread=False)
        def consent(request: Request[Any, Any, Any]) -> Response[None]:
            asked = dict(request.query_params.items())
            self.consents.append(asked)
            answer = {"error": "access_denied"} if self.denied else {"code": CODE, "scope": asked["scope"]}
            address = f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], **answer})}"
            return Response(None, status_code=302, headers={"Location": address})

        @post("/token", status_code=200)
        async def token(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
            form = dict(parse_qsl((await request.body()).decode()))
            self.forms.append(form)
            if self.error:
                return Response({"error": self.error, "error_description": f"{CODE} {SECRET}"}, status_code=400)
            id_token = jwt.encode(
                {"email": "Sync@Acme.com"}, "somebody else's key, thirty-two bytes", algorithm="HS256"
            )
            given = {
                "access_token": "ya29.a",
                "refresh_token": REFRESH,
                "scope": f"openid email {READ}",
                "id_token": id_token,
            }
            return Response({name: value for name, value in (given | self.tokens).items() if value is not None})

        @get("/drive/v3/about", sync_to_thread=False)
        def about(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
            assert request.headers["authorization"] == "Bearer ya29.a"
            return Response(self.about or {"error": {"code": 403}}, status_code=200 if self.about else 403)

        return Litestar([consent, token, about], openapi_config=None)


@pytest.fixture
def provider() -> Google:
    return Google()


@pytest.fixture
def running(site: Site, provider: Google) -> Iterator[Running]:
    """The installation with an OAuth client, beside a double of Google."""
    with serve(provider.app()) as address:
        client = {"google_client_id": CLIENT, "google_client_secret": SecretStr(SECRET), "drive_api_url": address}
        site.settings = site.settings.model_copy(update=client)
        with site.running() as running:
            yield running


def begin(running: Running) -> str:
    """Begin a sign-in; returns the consent page's address."""
    response = running.request("GET", START, ROOT, admin=True, headers={"Accept": "application/json"})
    assert response.status_code == 200, response.text
    return response.json()["url"]


def returned(consent: str) -> str:
    """Go to the consent page as a browser does; returns the path that it sends the browser back to, of our callback."""
    address = httpx.get(consent).headers["location"]
    assert address.startswith(PUBLIC_URL + CALLBACK)
    return address.removeprefix(PUBLIC_URL)


def kept(site: Site) -> credentials.Credential | None:
    return credentials.load(site.settings.postgres_dsn, site.settings, credentials.GOOGLE)


def nothing_leaks(text: str) -> bool:
    return not any(secret in text for secret in (CODE, SECRET, REFRESH, "ya29"))


def test_the_consent_page_requests_offline_read_access_only(running: Running, provider: Google) -> None:
    consent = begin(running)
    asked = dict(parse_qsl(urlsplit(consent).query))
    state = asked.pop("state")
    challenge = asked.pop("code_challenge")
    assert asked == {
        "client_id": CLIENT,
        "redirect_uri": PUBLIC_URL + CALLBACK,
        "response_type": "code",
        "scope": "openid email https://www.googleapis.com/auth/drive.readonly",
        "access_type": "offline",
        "prompt": "select_account consent",
        "code_challenge_method": "S256",
    }
    assert running.http.get(returned(consent)).status_code == 200
    form = provider.forms[0]
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
    assert form["code_verifier"] not in state
    assert (form["code"], form["client_secret"], form["redirect_uri"]) == (CODE, SECRET, PUBLIC_URL + CALLBACK)
    first = running.request("GET", START, ROOT, admin=True)
    assert (first.status_code, urlsplit(first.headers["location"]).path) == (302, "/o/oauth2/v2/auth")


def test_googles_own_pages_are_used_unless_a_simulator_is_named(site: Site) -> None:
    assert endpoints(site.settings) == (
        "https://accounts.google.com/o/oauth2/v2/auth",
        "https://oauth2.googleapis.com/token",
    )


def test_only_administrators_may_start_a_sign_in(running: Running, site: Site) -> None:
    assert running.request("GET", START, BOB).json()["type"] == "/problems/admin-only"
    assert running.http.get(START).status_code == 401
    assert site.sql("SELECT count(*) FROM sign_ins") == [(0,)]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["CONCORDANCE_GOOGLE_CLIENT_ID", "CONCORDANCE_GOOGLE_CLIENT_SECRET"]),
        ({"google_client_id": CLIENT}, ["CONCORDANCE_GOOGLE_CLIENT_SECRET"]),
    ],
)
def test_a_missing_oauth_client_names_the_settings(site: Site, settings: dict[str, str], names: list[str]) -> None:
    site.settings = site.settings.model_copy(update=settings)
    with site.running() as running:
        problem = running.request("GET", START, ROOT, admin=True).json()
        assert (problem["status"], problem["type"]) == (409, "/problems/source-not-configured")
        assert [name for name in ("ID", "SECRET") if f"CLIENT_{name}" in problem["detail"]] == [
            name.rpartition("_")[2] for name in names
        ]


def test_the_token_is_stored_encrypted_with_the_account_and_the_administrator(running: Running, site: Site) -> None:
    site.sql(
        "INSERT INTO source_states (source, paused_at, paused_reason, tried_at) VALUES"
        " ('google_drive', now(), 'revoked', now()), ('slack', now(), 'other', now())"
    )
    page = running.http.get(returned(begin(running)))
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert ACCOUNT in page.text
    assert nothing_leaks(page.text)
    credential = kept(site)
    assert credential is not None
    assert (credential.secret, credential.account, credential.updated_by) == (REFRESH, ACCOUNT, ROOT)
    assert READ in credential.scopes
    stored = bytes(site.sql("SELECT secret FROM credentials")[0][0])
    assert REFRESH.encode() not in stored
    assert REFRESH.encode() not in base64.urlsafe_b64decode(stored)
    tables = site.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    rows = SQL("SELECT t::text FROM {} AS t")
    dump = "".join(str(site.sql(rows.format(Identifier(table)))) for (table,) in tables)
    assert ACCOUNT in dump
    assert nothing_leaks(dump)
    paused = dict(site.sql("SELECT source, paused_at IS NOT NULL FROM source_states"))
    assert paused == {"google_drive": False, "slack": True}
    running.settle()
    audited = "SELECT 1 FROM audit_log WHERE action = 'connect' AND email = %s AND detail ->> 'account' = %s"
    assert site.sql(audited, ROOT, ACCOUNT)


def test_the_stored_token_survives_key_rotation(running: Running, site: Site) -> None:
    running.http.get(returned(begin(running)))
    old = keys.load(site.settings).encryption_key
    new = Fernet.generate_key().decode()
    for list_of_keys in (f"{new},{old}", new):
        site.settings = site.settings.model_copy(update={"encryption_keys": SecretStr(list_of_keys)})
        credential = kept(site)
        assert credential is not None
        assert credential.secret == REFRESH


def test_a_second_account_replaces_the_first(running: Running, site: Site, provider: Google) -> None:
    running.http.get(returned(begin(running)))
    provider.tokens = {"refresh_token": "1//another"}
    assert running.http.get(returned(begin(running))).status_code == 200
    credential = kept(site)
    assert credential is not None
    assert credential.secret == "1//another"
    assert site.sql("SELECT count(*) FROM credentials") == [(1,)]


def test_a_state_can_be_used_once(running: Running, site: Site, provider: Google) -> None:
    path = returned(begin(running))
    assert running.http.get(path).status_code == 200
    site.sql("DELETE FROM credentials")
    again = running.http.get(path)
    assert (again.status_code, "already completed" in again.text) == (400, True)
    assert len(provider.forms) == 1
    assert kept(site) is None


def expired(site: Site) -> str:
    before = datetime.now(UTC) - timedelta(minutes=11)
    return Attempts((secret_key(site.settings),), PURPOSE).signed("00000000-0000-4000-8000-000000000001", before)


def never_begun(site: Site) -> str:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    return Attempts((secret_key(site.settings),), PURPOSE).signed("00000000-0000-4000-8000-000000000001", soon)


def other_key(_site: Site) -> str:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    return Attempts(("another key of more than thirty-two characters",), PURPOSE).signed("0" * 32, soon)


def test_an_invalid_state_is_refused(running: Running, site: Site, provider: Google, subtests: pytest.Subtests) -> None:
    states = {
        "expired": expired(site),
        "never begun": never_begun(site),
        "of another key": other_key(site),
        "a token": site.token(ROOT, admin=True),
        "a word": "abc",
        "nothing": "",
    }
    for name, state in states.items():
        with subtests.test(name):
            begin(running)
            page = running.http.get(CALLBACK, params={"state": state, "code": CODE})
            assert (page.status_code, "is not connected" in page.text) == (400, True)
            assert nothing_leaks(page.text)
            assert provider.forms == []
            assert kept(site) is None


def test_a_state_is_not_an_access_token(running: Running) -> None:
    state = dict(parse_qsl(urlsplit(begin(running)).query))["state"]
    refused = running.http.get("/api/sources", headers={"Authorization": f"Bearer {state}"})
    assert refused.status_code == 401


def test_an_expired_sign_in_is_refused(running: Running, site: Site) -> None:
    path = returned(begin(running))
    site.sql("UPDATE sign_ins SET expires_at = now() - interval '1 second'")
    assert running.http.get(path).status_code == 400
    site.sql("UPDATE sign_ins SET expires_at = now() - interval '25 hours'")  # kept for a day: a clock may be ahead
    begin(running)
    assert site.sql("SELECT count(*) FROM sign_ins") == [(1,)]


def test_a_denied_consent_is_reported(running: Running, site: Site, provider: Google) -> None:
    provider.denied = True
    page = running.http.get(returned(begin(running)))
    assert (page.status_code, "Access was not granted" in page.text) == (403, True)
    assert provider.forms == []
    assert kept(site) is None


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ({"tokens": {"refresh_token": None}}, 400, "no refresh token"),
        ({"tokens": {"scope": "openid email"}}, 400, "was not selected"),
        ({"error": "invalid_client"}, 502, "CONCORDANCE_GOOGLE_CLIENT_SECRET"),
        ({"error": "invalid_grant"}, 502, "start it again"),
        ({"error": f"<script>{CODE}"}, 502, "status 400"),
        ({"tokens": {"id_token": None}}, 502, "Drive API"),
        ({"tokens": {"id_token": None}, "about": {"user": {}}}, 502, "did not name the account"),
    ],
)
def test_googles_errors_have_messages_of_ours(
    running: Running, site: Site, provider: Google, answer: dict[str, Any], status: int, says: str
) -> None:
    for name, value in answer.items():
        setattr(provider, name, value)
    page = running.http.get(returned(begin(running)))
    assert (page.status_code, says in page.text) == (status, True), page.text
    assert nothing_leaks(page.text)
    assert "<script" not in page.text
    assert kept(site) is None


def test_without_an_id_token_the_account_is_read_from_drive(running: Running, site: Site, provider: Google) -> None:
    provider.tokens, provider.about = {"id_token": None}, {"user": {"emailAddress": "drive@acme.com"}}
    assert running.http.get(returned(begin(running))).status_code == 200
    credential = kept(site)
    assert credential is not None
    assert credential.account == "drive@acme.com"


def test_an_unreachable_google_is_reported(site: Site) -> None:
    client = {
        "google_client_id": CLIENT,
        "google_client_secret": SecretStr(SECRET),
        "drive_api_url": "http://127.0.0.1:9",
    }
    site.settings = site.settings.model_copy(update=client)
    with site.running() as running:
        state = dict(parse_qsl(urlsplit(begin(running)).query))["state"]
        page = running.http.get(CALLBACK, params={"state": state, "code": CODE})
        assert (page.status_code, "cannot be reached" in page.text) == (503, True)
        assert nothing_leaks(page.text)


def test_a_callback_without_a_code_connects_nothing(running: Running, site: Site) -> None:
    state = dict(parse_qsl(urlsplit(begin(running)).query))["state"]
    page = running.http.get(CALLBACK, params={"state": state, "error": "<b>server_error</b>"})
    assert (page.status_code, "<b>" in page.text) == (400, False)
    assert kept(site) is None


def test_the_source_is_paused_until_it_is_connected_again(running: Running, site: Site) -> None:
    site.sql("INSERT INTO source_states (source, paused_at, paused_reason) VALUES ('google_drive', now(), 'revoked')")

    def paused() -> Any:
        sources = running.request("GET", "/api/sources", ROOT, admin=True).json()["sources"]
        return sources[0]["paused"]

    assert paused()["reason"] == "revoked"
    running.http.get(returned(begin(running)))
    assert paused() is None


def test_the_simulator_signs_in_and_the_connector_reads_with_what_was_kept(site: Site, drive_site: DriveSite) -> None:
    client = {"google_client_id": CLIENT, "google_client_secret": SecretStr(SECRET), "drive_api_url": drive_site.url}
    site.settings = site.settings.model_copy(update=client)
    drive_site.drive.sessions.client_secret = SECRET
    with site.running() as running:
        page = running.http.get(returned(begin(running)))
    assert page.status_code == 200, page.text
    credential = kept(site)
    assert credential is not None
    assert credential.account == drive_site.drive.account
    token = Authority(site.settings, Tally()).token()
    assert drive_site.drive.sessions.bearer(token) is not None
    drive_site.drive.sessions.consents = False
    with site.running() as running:
        assert running.http.get(returned(begin(running))).status_code == 403


def test_the_command_line_prints_the_consent_page(
    running: Running, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(urlsplit(running.url).port))
    assert run(["connect", "google", "--as", ROOT]) == 0
    printed = capsys.readouterr()
    consent = printed.out.splitlines()[-1]
    assert "browser" in printed.err
    assert running.http.get(returned(consent)).status_code == 200
    credential = kept(site)
    assert credential is not None
    assert credential.updated_by == ROOT
    assert run(["connect", "google", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])) == {"url"}


def test_the_command_line_lists_and_removes_accounts(
    running: Running, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    assert running.http.get(returned(begin(running))).status_code == 200
    assert run(["connect", "list", "--json"]) == 0
    printed = capsys.readouterr().out.splitlines()[-1]
    assert [(one["account"], one["updated_by"]) for one in json.loads(printed)] == [(ACCOUNT, ROOT)]
    assert nothing_leaks(printed)
    assert run(["connect", "remove", BOB, "--yes"]) == 2
    assert run(["connect", "remove", "Sync@Acme.com", "--as", ROOT, "--yes"]) == 0
    assert kept(site) is None
    assert run(["connect", "list"]) == 0
    assert "connect google" in capsys.readouterr().err
    audited = "SELECT 1 FROM audit_log WHERE action = 'disconnect' AND email = %s AND detail ->> 'account' = %s"
    assert site.sql(audited, ROOT, ACCOUNT)


def test_the_command_line_names_the_settings_that_are_missing(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with site.running() as running:
        monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
        monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(urlsplit(running.url).port))
        assert run(["connect", "google"]) == 1
    assert "CONCORDANCE_GOOGLE_CLIENT_ID" in capsys.readouterr().err
    assert run(["connect", "google"]) == 3
