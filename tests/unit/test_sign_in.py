"""Parts of sign-in without a network: paths to return to, emails and groups of claims, and the setting."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, cast

import httpx
import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from resources import mail, sample_people
from resources.core.errors import ConfigurationError
from resources.settings import OidcProvider, Settings, load
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from serving.identity.sign_in.claims import GOOGLE, identity
from serving.identity.sign_in.emailed import is_plain
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.provider import Provider
from serving.identity.sign_in.refusals import SignInRefusedError
from serving.identity.sign_in.relying_party import relying_party
from serving.identity.sign_in.sessions import ProviderTokens, Sessions
from sql.sign_in import BrowserSession

ROW: dict[str, Any] = {"name": "Acme", "issuer": "https://id.acme.com", "client_id": "concordance"}


def provider(**more: Any) -> OidcProvider:
    return OidcProvider.model_validate(ROW | {"groups_claim": "groups"} | more)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/documents/x?chunk=1#place", "/documents/x?chunk=1#place"),
        ("/", "/"),
        ("", "/"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/\t/evil.example", "/"),
        ("/a\r\nLocation: https://evil.example", "/"),
        (" //evil.example", "/"),
        ("/%2f/evil.example", "/%2f/evil.example"),
        ("/é", "/"),
        ("/sign-in/acme", "/"),
        ("/sign-out", "/"),
        ("/" + "x" * 3000, "/"),
    ],
)
def test_only_own_paths_are_returned_to(given: str, path: str) -> None:
    assert own_path(given) == path


def test_an_attempt_keeps_its_key_when_keys_are_rotated() -> None:
    old, new = ("old key " * 5,), ("new key " * 5,)
    state = Attempts(old, "test").signed("1", datetime.now(UTC) + LIFETIME)
    rotated = Attempts(new + old, "test")
    assert rotated.opened(state)["jti"] == "1"
    assert rotated.of(state).secret("verifier", "1") == Attempts(old, "test").secret("verifier", "1")
    assert Attempts(new, "test").opened(rotated.signed("2", datetime.now(UTC) + LIFETIME))["jti"] == "2"
    for other in (Attempts(new, "test"), Attempts(new + old, "another")):
        assert other.claimed(state, "jti") == ""
        with pytest.raises(jwt.InvalidTokenError):
            other.opened(state)


@given(st.from_regex(r"[a-z0-9_+'&.=?%!,-]{1,30}", fullmatch=True))
@example("ann.b+news")
@example("o'neil&sons")
@example("=?utf-8?q?eve=40other.com=2c?=")
def test_a_message_names_the_address_that_it_goes_to(local: str) -> None:
    address = f"{local}@acme.com"
    assert is_plain(address) == (not set(local) & set("=?%!,") and all(local.split(".")))
    if is_plain(address):
        read = message_from_bytes(bytes(mail.message("concordance@acme.com", address, "Hello")), policy=policy.default)
        assert [one.addr_spec for one in read["To"].addresses] == [address]


@pytest.mark.parametrize(
    ("setting", "claims", "reason"),
    [
        ({}, {"email_verified": True}, None),
        ({}, {"email_verified": "true"}, None),
        ({}, {}, "email-unverified"),
        ({}, {"email_verified": False}, "email-unverified"),
        ({}, {"email_verified": None}, "email-unverified"),
        ({}, {"email_verified": 1}, "email-unverified"),
        ({"trust_email": True}, {}, None),
        ({"trust_email": True}, {"email_verified": False}, "email-unverified"),
        ({"trust_email": True}, {"email_verified": "false"}, "email-unverified"),
        ({}, {"email": None, "email_verified": True}, "no-email"),
        ({}, {"email": "ann", "email_verified": True}, "no-email"),
        ({}, {"email": ["ann@acme.com"], "email_verified": True}, "no-email"),
        ({"domains": ["acme.com"]}, {"email_verified": True}, None),
        ({"domains": ["other.com"]}, {"email_verified": True}, "domain"),
        ({"domains": ["acme.com"]}, {"email": "a@sub.acme.com", "email_verified": True}, "domain"),
        ({"issuer": GOOGLE}, {"email_verified": True}, "domain"),
        ({"issuer": GOOGLE}, {"email_verified": True, "hd": "other.com"}, "domain"),
        ({"issuer": GOOGLE}, {"email_verified": True, "hd": "acme.com"}, None),
        ({"issuer": GOOGLE}, {"email": "ann@gmail.com", "email_verified": True}, None),
        ({"issuer": GOOGLE}, {"email": "ann@googlemail.com", "email_verified": True}, None),
    ],
)
def test_an_email_counts_only_if_it_is_verified_and_in_its_domain(
    setting: dict[str, Any], claims: dict[str, Any], reason: str | None
) -> None:
    given = {"sub": "1", "email": "Ann@Acme.com"} | claims
    if reason is None:
        assert identity(provider(**setting), given).email == str(given["email"]).lower()
        return
    with pytest.raises(SignInRefusedError) as caught:
        identity(provider(**setting), given)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("domains", "groups", "found"),
    [
        ([], ["Eng", "/crew", "all@other.com"], ["all@other.com", "crew@acme.com", "eng@acme.com"]),
        (["acme.com"], ["eng", "board@other.com"], ["eng@acme.com"]),
        ([], ["two words", "", 7, None, "-", "slack:T1"], ["slack-t1@acme.com", "two-words@acme.com"]),
        ([], "eng", ["eng@acme.com"]),
        ([], {"eng": True}, []),
        ([], None, []),
    ],
)
def test_groups_of_a_claim(domains: list[str], groups: Any, found: list[str]) -> None:
    claims = {"sub": "1", "email": "ann@acme.com", "email_verified": True, "groups": groups}
    assert identity(provider(domains=domains), claims).groups == found
    assert identity(OidcProvider.model_validate(ROW), claims).groups == []


def test_several_providers_name_their_domains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    two = [ROW | {"domains": ["acme.com"]}, ROW | {"name": "Partner", "domains": ["partner.com"]}]
    file = tmp_path / "providers.json"
    file.write_text(json.dumps(two), encoding="utf-8")
    monkeypatch.setenv("CONCORDANCE_OIDC_PROVIDERS", f"@{file}")
    assert [one.slug for one in load(_env_file=None).providers] == ["acme", "partner"]
    for wrong, says in [
        ([two[0], ROW | {"name": "Partner"}], "provider Partner (domains): is missing"),
        ([two[0], two[0]], "twice"),
        ([ROW | {"name": "Sample"}], "sample company"),
        ([ROW | {"scopes": ["email"]}], "must contain openid"),
        ([ROW | {"parameters": {"redirect_uri": "x"}}], "redirect_uri"),
        ([ROW | {"domains": ["@acme"]}], "domains such as acme.com"),
        ([ROW | {"client_secret": ["hidden"]}], "must be a text"),
        ([ROW | {"audiences": ["concordance"]}], "must not contain the client_id"),
        ({}, "JSON list"),
    ]:
        monkeypatch.setenv("CONCORDANCE_OIDC_PROVIDERS", json.dumps(wrong))
        with pytest.raises(ConfigurationError) as caught:
            load(_env_file=None)
        assert says in str(caught.value)
        assert "hidden" not in str(caught.value)


def test_the_sample_companys_people_are_offered_only_where_nobody_else_can_be_affected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    assert sample_people.sample_people(settings) == ()
    person = {"id": "ann", "name": "Ann", "role": "engineer", "email": "ann@acme.com", "groups": ["eng@acme.com"]}
    file = tmp_path / "people.json"
    file.write_text(json.dumps([person | {"may_read": []}]), encoding="utf-8")
    monkeypatch.setenv(sample_people.VARIABLE, str(file))
    assert [one.email for one in sample_people.sample_people(settings)] == ["ann@acme.com"]
    for changes in (
        {"public_url": "https://search.example"},
        {"oidc_providers": SecretStr(json.dumps([ROW]))},
        {"http_host": "0.0.0.0"},  # noqa: S104 # compared, not bound
        {"http_host": "192.168.0.4"},
        {"allowed_hosts": ("search.example",)},
    ):
        assert sample_people.sample_people(settings.model_copy(update=changes)) == ()


@pytest.mark.parametrize(
    ("address", "host", "origin"),
    [
        ("https://Search.Acme.com/", "search.acme.com", "https://search.acme.com"),
        ("https://search.acme.com:443", "search.acme.com", "https://search.acme.com"),
        ("https://search.acme.com:8443", "search.acme.com", "https://search.acme.com:8443"),
        ("http://localhost:8080", "localhost", "http://localhost:8080"),
    ],
)
def test_passkeys_are_for_the_address_that_people_open(address: str, host: str, origin: str, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, public_url=address)  # type: ignore[call-arg]
    assert relying_party(settings) == (host, origin)


@pytest.mark.parametrize("address", [None, "http://search.acme.com", "https://192.0.2.1", "https://[::1]:8443"])
def test_an_address_that_browsers_take_no_passkeys_at_has_none(address: str | None, tmp_path: Path) -> None:
    assert relying_party(Settings(_env_file=None, home=tmp_path, public_url=address)) is None  # type: ignore[call-arg]


class _Reads:
    """A session that is due for its renewal; `stored` is what a renewal stores."""

    def __init__(self, sealed: bytes) -> None:
        self.sealed = sealed
        self.stored: list[bytes] = []

    async def session_by_id(self, **_: Any) -> BrowserSession:
        old = datetime(2026, 1, 1, tzinfo=UTC)
        return BrowserSession("1", "ann@acme.com", "acme", "1", [], False, old, old, True, False)

    async def session_claim_refresh(self, **_: Any) -> bytes:
        return self.sealed

    async def session_refreshed(self, *, secrets: bytes, **_: Any) -> None:
        self.stored.append(secrets)


async def _left_while_it_is_renewed(settings: Settings) -> list[bytes]:
    """Cancel a request while the provider renews its session, as when a reader leaves, and return what is stored."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/token":
            asked.set()
            await answered.wait()
            return httpx.Response(200, json={"access_token": "a", "refresh_token": "new"})
        if request.url.path == "/userinfo":
            return httpx.Response(200, json={"sub": "1", "email": "ann@acme.com", "email_verified": True})
        names = {"authorization": "auth", "token": "token", "userinfo": "userinfo"}
        endpoints = {f"{name}_endpoint": f"https://id.acme.com/{path}" for name, path in names.items()}
        return httpx.Response(200, json={"issuer": ROW["issuer"], "jwks_uri": "https://id.acme.com/jwks", **endpoints})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        acme: Any = Provider(provider())
        acme._client = client
        sessions: Any = Sessions(settings, *[cast("Any", None)] * 2, {"acme": acme}, cast("Any", None), {"acme"})
        sessions._reads = _Reads(sessions._encrypted(ProviderTokens("old")))
        request = asyncio.create_task(sessions.access_by_id("1", datetime.now(UTC)))
        await asyncio.wait({request, renewal := asyncio.create_task(asked.wait())}, return_when="FIRST_COMPLETED")
        assert renewal.done(), request.exception()
        request.cancel()
        await asyncio.wait([request])
        answered.set()
        for _ in range(100):
            await asyncio.sleep(0)
        return [sessions._decrypted(one).refresh_token for one in sessions._reads.stored]


def test_a_renewal_is_stored_though_its_reader_has_left(tmp_path: Path) -> None:
    """A provider may take each refresh token once: without the new one, it would refuse the next renewal."""
    settings = Settings(_env_file=None, home=tmp_path)
    assert asyncio.run(_left_while_it_is_renewed(settings)) == ["new"]
