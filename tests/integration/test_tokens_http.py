"""Own tokens over HTTP: revocation, with and without Postgres, rotation of the signing key, and the maximum lifetime."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest
from pydantic import SecretStr

from orchestration.cli import run
from orchestration.cli.arguments import operator
from resources.core.errors import InvalidRequestError
from resources.keys import secret_key
from resources.stores.offboarding import offboard
from resources.stores.postgres import session
from resources.stores.withheld import TOKEN
from serving.identity import api_keys, revocation, tokens
from serving.identity.withholding import Withholding
from sql.sign_in import SignInSession
from tests.fixtures.revoked import revoke, withheld
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
OLD, NEW, OTHER = "o" * 40, "n" * 40, "x" * 40


def status(running: Running, token: str) -> tuple[int, str]:
    """What a search with this token is answered with."""
    headers = {"Authorization": f"Bearer {token}"}
    answer = running.http.post("/api/rag/search", json={"query": "ferry"}, headers=headers)
    return answer.status_code, answer.json().get("type", "").removeprefix("/problems/")


def as_before(site: Site, email: str, **claims: Any) -> str:
    """A token as an older version made it: without `kid` and `jti`."""
    now = datetime.now(UTC)
    made = {"iss": "concordance", "aud": "concordance", "sub": email, "iat": now, "exp": now + timedelta(hours=1)}
    return jwt.encode(made | claims, secret_key(site.settings), algorithm="HS256")


def test_a_revoked_token_is_refused_at_once_and_audited(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], ["public"])
    for token, other in [
        (site.token(ANN), site.token(ANN)),
        (as_before(site, ANN), as_before(site, ANN, groups=["eng@acme.com"])),
    ]:
        assert status(running, token) == (200, "")
        revoke(site, token)
        revoke(site, token)
        assert status(running, token) == (401, "token-revoked")
        signed, signature = token.rsplit(".", 1)
        forged = f"{signed}.{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}"
        assert status(running, forged)[0] == 401  # however the same signature is spelled
        assert status(running, other) == (200, "")
        assert running.request("GET", "/api/sources", BOB).status_code == 200
    rows = site.sql("SELECT email, detail ->> 'by' FROM audit_log WHERE action = 'token_revoked'")
    assert set(rows) == {(ANN, "operator")}


def test_who_makes_keys_and_tokens_of_administrators_by_command_is_audited(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)

    def printed(*command: str) -> str:
        assert run(list(command)) == 0
        return capsys.readouterr().out.strip()

    key_id = printed("key", "create", ANN, "--admin").split("_")[1]
    printed("key", "revoke", key_id)
    printed("token", ANN)
    made = jwt.decode(printed("token", ANN, "--admin"), options={"verify_signature": False})
    rows = site.sql("SELECT email, action, detail FROM audit_log ORDER BY event_id")
    assert [(email, action, detail.pop("by")) for email, action, detail in rows] == [
        (ANN, action, operator()) for action in ("key_create", "key_revoke", "token_create")
    ]
    expires = datetime.fromtimestamp(made["exp"], UTC).isoformat()
    assert rows[-1][2] == {"token_id": made["jti"], "admin": True, "expires_at": expires}
    monkeypatch.setattr("orchestration.cli.access.RECORD_SECONDS", 0.5)
    with psycopg.connect(site.settings.postgres_dsn) as holder:
        holder.execute("LOCK TABLE audit_log")
        assert printed("token", ANN, "--admin").count(".") == 2, "a database that hangs"
    site.sql("ALTER TABLE audit_log RENAME TO former")
    assert run(["token", ANN, "--admin"]) == 0, "a database of an earlier version"
    made, said = capsys.readouterr()
    assert (made.count("."), "The audit log does not have this token." in said) == (2, True)
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert printed("token", ANN, "--admin").count(".") == 2


def test_a_revocation_by_id_needs_no_token(site: Site, running: Running) -> None:
    token = site.token(ANN)
    revoke(site, jwt.decode(token, options={"verify_signature": False})["jti"])
    assert status(running, token) == (401, "token-revoked")
    with pytest.raises(InvalidRequestError, match="whole token"):
        revocation.identify(site.settings, "not.a.token")


def test_the_deny_lists_of_postgres_and_of_the_index_learn_from_each_other(site: Site, running: Running) -> None:
    in_index, in_postgres = site.token(ANN), site.token(ANN)
    withheld(site, in_index)  # and then the process was killed, or Postgres was down
    with session(site.settings.postgres_dsn) as connection:  # the index was away
        revocation.record(site.settings, connection, revocation.identify(site.settings, in_postgres), by="operator")
    Withholding(site.settings).settle()
    assert status(running, in_index) == status(running, in_postgres) == (401, "token-revoked")
    listed = {entry.key for page in site.withheld.entries(TOKEN) for entry in page}
    assert listed == {revocation.identify(site.settings, one).token_id for one in (in_index, in_postgres)}


def test_expired_tokens_leave_the_index(site: Site) -> None:
    site.withheld.tokens({"over": time.time() - 1, "valid": time.time() + 60})
    Withholding(site.settings).settle()
    assert [entry.key for page in site.withheld.entries(TOKEN) for entry in page] == ["valid"]


def test_the_deny_list_of_an_earlier_version_is_carried_over(site: Site) -> None:
    token, home = site.token(ANN), site.settings.home
    (home / "revoked").mkdir()
    found = revocation.identify(site.settings, token)
    until = {found.token_id: found.expires.timestamp()}
    (home / "revoked" / "tokens.json").write_text(json.dumps(until), encoding="utf-8")
    Withholding(site.settings).settle()
    assert not (home / "revoked" / "tokens.json").exists()
    with site.running() as running:
        assert status(running, token) == (401, "token-revoked")


def test_a_revoked_token_does_not_come_back_without_postgres(site: Site) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], ["public"])
    revoked, valid = site.token(ANN), site.token(ANN)
    revoke(site, revoked)
    site.settings = site.settings.model_copy(update={"postgres_url": SecretStr("postgresql://127.0.0.1:9/none")})
    with site.running() as running:
        assert status(running, valid) == (200, "")
        assert status(running, revoked) == (401, "token-revoked")
        withheld(site, valid)
        assert status(running, valid) == (401, "token-revoked")


def test_a_revoked_token_stays_refused_when_tokens_last_longer_again(site: Site) -> None:
    month = site.token(ANN, expires=timedelta(days=30))
    site.settings = site.settings.model_copy(update={"token_max_lifetime": "1d"})
    revoke(site, month)
    later = datetime.now(UTC) + timedelta(days=29)
    with session(site.settings.postgres_dsn) as connection:
        SignInSession(connection).revoke_token(token_id="other", revoked_by="operator", expires_at=later, now=later)
    site.settings = site.settings.model_copy(update={"token_max_lifetime": "90d"})
    with site.running() as running:
        assert status(running, month) == (401, "token-revoked")


def test_two_keys_at_a_time(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"secret_key": SecretStr(OLD)})
    before, without_kid = site.token(ANN), as_before(site, ANN)
    site.settings = site.settings.model_copy(update={"secret_key": SecretStr(f"{NEW}, {OLD}")})
    now = site.token(ANN)
    assert jwt.get_unverified_header(now)["kid"] == tokens.key_id(NEW) != jwt.get_unverified_header(before)["kid"]
    with site.running() as running:
        assert [status(running, token) for token in (before, without_kid, now)] == [(200, "")] * 3
        assert status(running, tokens.encode(OTHER, ANN)) == (401, "token-signature")
        claimed = jwt.encode({}, OTHER, algorithm="HS256", headers={"kid": tokens.key_id(NEW)})
        assert status(running, claimed) == (401, "token-signature")
    site.settings = site.settings.model_copy(update={"secret_key": SecretStr(NEW)})
    with site.running() as running:
        assert [status(running, token)[0] for token in (before, without_kid, now)] == [401, 401, 200]


def test_no_token_is_accepted_beyond_the_maximum_lifetime(site: Site) -> None:
    month = site.token(ANN, expires=timedelta(days=30))
    old = as_before(site, ANN, iat=datetime.now(UTC) - timedelta(days=2), exp=datetime.now(UTC) + timedelta(days=9))
    site.settings = site.settings.model_copy(update={"token_max_lifetime": "1d"})
    with pytest.raises(InvalidRequestError, match="at most 1d"):
        site.token(ANN, expires=timedelta(days=30))
    with site.running() as running:
        assert status(running, month) == (200, "")  # until it is a day old
        assert status(running, old) == (401, "token-expired")


def test_an_address_has_one_spelling_in_tokens_and_keys(site: Site) -> None:
    composed, decomposed = "ren\u00e9@acme.com", "Rene\u0301@acme.com"
    with session(site.settings.postgres_dsn) as connection:
        api_keys.create(connection, decomposed)
        offboard(connection, {composed: "left"}, by="scim")
    assert site.sql("SELECT email, revoked_at IS NULL FROM api_keys") == [(composed, False)]
    claims = jwt.decode(site.token(decomposed), options={"verify_signature": False})
    assert claims["sub"] == composed
    earlier = tokens.sign(secret_key(site.settings), claims | {"sub": decomposed})  # as older versions made them
    assert tokens.verify(earlier, secret_key(site.settings)).email == composed
