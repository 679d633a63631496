"""Sign-in with a real provider in a real browser: what the person sees, and what the audit log holds."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from resources.servers.processes import free_port
from tests.fixtures.browser import running_browser
from tests.fixtures.oidc_provider import running_provider
from tests.fixtures.serving import Site
from tests.fixtures.sign_in import QUERY, Desk, settings_of

LOGOUT = "!!document.querySelector('button[name=logout]')"
ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@other.com"


@pytest.fixture
def desk(site: Site, oidc_package: Path, tmp_path: Path) -> Iterator[Desk]:
    port = free_port()
    site.add("Open", ["The ferry timetable of the northern pier."], ["domain:acme.com"])
    site.add("Crew", ["The ferry timetable of the crew."], ["group:crew@acme.com"])
    with running_provider(oidc_package, f"http://127.0.0.1:{port}") as provider:
        provider.person("ann", ANN, groups=["crew", "board@other.com", "--"])
        provider.person("bob", BOB)
        provider.person("new", "new@acme.com", verified=False)
        provider.person("eve", EVE)
        site.settings = settings_of(site.settings, provider.issuer, port)
        with site.running(port=port) as running, running_browser(tmp_path / "profile") as browser:
            yield Desk(site, running, provider, browser)


def test_sign_in_cases(desk: Desk, show: Callable[[str], None]) -> None:
    """The table of cases: each is played in the browser, and its row is checked."""
    browser, provider = desk.browser, desk.provider
    doc_id = desk.site.sql("SELECT doc_id::text FROM documents WHERE source_title = 'Open'")[0][0]

    browser.goto(f"{desk.running.url}/sign-in")
    assert "Continue with Acme" in desk.note("discovery: the sign-in page")

    desk.sign_in("ann", f"/documents/{doc_id}")
    assert browser.url.endswith(f"/documents/{doc_id}")
    assert "northern pier" in desk.note("login, from a document's page")
    assert "sign_in ann@acme.com acme" in desk.rows[-1][2]
    cookie = desk.cookie
    assert cookie is not None
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert desk.site.sql("SELECT count(*) FROM sessions WHERE secret_hash = %s", cookie["value"]) == [(0,)]
    assert desk.titles() == ["Crew", "Open"]
    assert desk.site.sql("SELECT groups FROM sessions") == [(["crew@acme.com"],)]

    desk.age("refreshed_at")
    provider.person("ann", ANN, groups=[])
    assert desk.titles() == ["Open"]
    assert desk.note("refresh: no longer in the group", f"search finds {desk.titles()}").endswith("| ")

    provider.person("ann", ANN, groups=["crew"])
    provider.tell(rotate=True)
    desk.age("refreshed_at")
    assert desk.titles() == ["Crew", "Open"]
    desk.note("key rotation in mid-session", f"stays signed in, search finds {desk.titles()}")

    desk.age("refreshed_at")
    provider.tell(fault={"down": True})
    found = desk.titles()
    desk.note("provider down: refresh", f"stays signed in, search finds {found}")
    desk.age("groups_at", "25 hours")
    assert desk.titles() == ["Open"]
    desk.note("provider down for longer than CONCORDANCE_ACL_MAX_AGE", f"search finds {desk.titles()}")
    stay = desk.cookie
    browser.goto(f"{desk.running.url}/sign-in/acme")
    assert "cannot be used for sign-in at the moment" in desk.note("provider down: sign-in")
    provider.tell(fault={})
    with httpx.Client(trust_env=False, base_url=desk.running.url) as http:
        while http.get("/sign-in/acme").status_code != 302:  # it is asked again after a few seconds
            pass

    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answers = [
        desk.search(**foreign),
        desk.search(**{"Sec-Fetch-Site": "cross-site"}),
        desk.search(**{"X-Concordance": ""}),
        desk.search(**foreign, Authorization="Bearer x"),
        desk.search(**foreign, **{"X-API-Key": "x"}),
    ]
    assert [one.status_code for one in answers] == [403, 403, 403, 401, 401]
    desk.note("cross-site POST with the cookie", f"nothing: {[one.status_code for one in answers]}")
    browser.goto(
        "data:text/html,<form method=post action='" + desk.running.url + "/sign-out'><button>x</button></form>"
    )
    browser.click("button")
    assert "origin-foreign" in desk.note("cross-site form that signs out")
    assert desk.cookie == stay

    browser.goto(f"{desk.running.url}/sign-in")
    assert ANN in browser.text
    browser.click("form.account button")
    browser.wait(lambda one: one.evaluate(LOGOUT), "the provider's sign-out page")
    assert "id_token" not in browser.url
    assert "sign_out ann@acme.com" in desk.note("logout, and on to the provider")
    assert desk.site.sql("SELECT count(*) FROM sessions") == [(0,)]
    browser.click("button[name=logout]")
    browser.wait(lambda one: one.url == f"{desk.running.url}/sign-in", "the way back")
    assert desk.search().status_code == 401

    browser.forget()
    query = begin(desk)
    assert query["code_challenge_method"] == "S256"
    browser.goto(f"{provider.issuer}/auth?{urlencode(query | {'nonce': 'another'})}")
    desk.dance("bob")
    assert "another browser or attempt" in desk.note("wrong nonce")
    assert "sign_in_refused - nonce" in desk.rows[-1][2]

    callback = browser.url
    browser.goto(callback)
    assert "already used or took too long" in desk.note("replayed callback of a sign-in that failed")
    assert "sign_in_refused - code-refused" in desk.rows[-1][2]

    state = begin(desk)["state"]
    browser.goto(
        urlsplit(callback)
        ._replace(query=urlencode(parse_qs(urlsplit(callback).query) | {"state": [state]}, doseq=True))
        .geturl()
    )
    assert "Please try again" in desk.note("replayed code, in a new sign-in")
    assert desk.rows[-1][2] == "sign_in_refused - code-refused"

    desk.sign_in("bob")
    assert desk.audit() == "sign_in bob@acme.com acme"
    with httpx.Client(trust_env=False) as http:
        other = http.get(callback)
    assert other.status_code == 403
    alert = re.search("role=alert>([^<]*)", other.text)
    assert "another browser" in desk.note("callback in another browser", alert[1] if alert else other.text)

    desk.age("expires_at", "8 days")
    browser.goto(f"{desk.running.url}/documents/{doc_id}")
    assert "signed out" in desk.note("expired session")

    desk.sign_in("bob")
    desk.audit()
    desk.age("seen_at", "13 hours")
    assert desk.search().json()["type"] == "/problems/session-over"
    browser.goto(f"{desk.running.url}/documents/{doc_id}")
    desk.note("idle session")

    desk.sign_in("bob")
    desk.audit()
    provider.tell(remove=["bob"])
    desk.age("refreshed_at")
    browser.goto(f"{desk.running.url}/documents/{doc_id}")
    assert "session_ended bob@acme.com the provider refused" in desk.note("deactivated at the provider")
    provider.person("bob", BOB)

    desk.sign_in("bob")
    desk.audit()
    desk.site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", BOB)
    browser.goto(f"{desk.running.url}/documents/{doc_id}")
    assert "deactivated" in desk.note("deactivated in the directory: session")
    browser.forget()
    desk.sign_in("bob")
    assert "sign_in_refused bob@acme.com account-inactive" in desk.note("deactivated in the directory: sign-in")

    for name, reason in (("new", "email-unverified"), ("eve", "domain")):
        browser.forget()
        desk.sign_in(name)
        assert f"sign_in_refused {desk_email(name)} {reason}" in desk.note(f"refused: {reason}")

    browser.forget()
    foreign_token = id_token_for(desk, "elsewhere")
    provider.tell(fault={"id_token": foreign_token})
    browser.forget()
    desk.sign_in("ann")
    assert "sign_in_refused - audience" in desk.note("wrong audience: another client's ID token")
    provider.tell(fault={})
    show(desk.table())


def begin(desk: Desk) -> dict[str, str]:
    """Begin a sign-in in the browser without going to the provider; return the parameters for it."""
    with httpx.Client(trust_env=False) as http:
        start = http.get(f"{desk.running.url}/sign-in/acme")
    [jar] = [one.split(";")[0].split("=") for one in start.headers.get_list("set-cookie")]
    desk.browser.call("Network.setCookie", name=jar[0], value=jar[1], url=desk.running.url, path="/", httpOnly=True)
    return {name: values[0] for name, values in parse_qs(urlsplit(start.headers["location"]).query).items()}


def desk_email(name: str) -> str:
    return {"new": "new@acme.com", "eve": EVE}[name]


def test_access_tokens_of_the_provider(desk: Desk) -> None:
    """Programs send access tokens; ID tokens, other audiences and other signatures are refused."""
    ours, theirs = "https://search.example/api", "https://elsewhere.example"
    port = desk.site.settings.http_port
    good = tokens_for(desk, "elsewhere", resource=ours)
    desk.browser.forget()
    wrong = tokens_for(desk, "elsewhere", resource=theirs)["access_token"]
    desk.browser.forget()
    own = tokens_for(desk, "concordance")
    claims = jwt.decode(good["access_token"], options={"verify_signature": False})
    header = jwt.get_unverified_header(good["access_token"])
    jwks = httpx.get(f"{desk.provider.issuer}/jwks", trust_env=False).json()["keys"]
    public = next(one["n"] for one in jwks if one["kid"] == header["kid"])
    forged = {
        "another audience": wrong,
        "an ID token of another client": good["id_token"],
        "an ID token of ours": own["id_token"],
        "signed with HS256 and the public key": jwt.encode(
            claims, public, algorithm="HS256", headers={"kid": header["kid"]}
        ),
        "signed by a key that is not listed": jwt.encode(
            claims,
            rsa.generate_private_key(public_exponent=65537, key_size=2048),
            algorithm="RS256",
            headers={"kid": "x"},
        ),
        "not signed": jwt.encode(claims, None, algorithm="none"),
        "changed": good["access_token"][:-8] + "AAAAAAAA",
    }
    desk.site.settings = settings_of(desk.site.settings, desk.provider.issuer, port, audiences=[ours])
    with desk.site.running() as running:

        def status(token: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"}
            answer = running.http.post("/api/rag/search", json={"query": QUERY}, headers=headers)
            return answer.status_code, ",".join(sorted(one["title"] for one in answer.json().get("results", [])))

        assert status(good["access_token"]) == (200, "Crew,Open")
        assert {why: status(token)[0] for why, token in forged.items()} == dict.fromkeys(forged, 401)
        assert running.titles(QUERY, ANN) == ["Open"]  # a token of ours, which names no group
        desk.provider.tell(fault={"down": True})
        assert status(good["access_token"])[0] == 200  # the keys are known
        desk.site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
        assert status(good["access_token"])[0] == 401


def id_token_for(desk: Desk, client: str) -> str:
    """An ID token that the provider makes for another client, for whom Ann signs in with the same browser."""
    return tokens_for(desk, client)["id_token"]


def tokens_for(desk: Desk, client: str, **more: str) -> dict[str, str]:
    """The tokens that the provider gives a client for whom Ann signs in."""
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    redirect = f"{desk.running.url}/sign-in/acme/callback"
    query = {
        "client_id": client,
        "redirect_uri": redirect,
        "response_type": "code",
        "scope": "openid email profile",
        "state": "x",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    } | more
    desk.browser.goto(f"{desk.provider.issuer}/auth?{urlencode(query)}")
    desk.dance("ann")
    code = parse_qs(urlsplit(desk.browser.url).query)["code"][0]
    desk.audit()
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
    form |= more
    secret = f"secret of {client}, long enough for a test".replace(" ", "%20").replace(",", "%2C")
    with httpx.Client(trust_env=False) as http:
        answer = http.post(f"{desk.provider.issuer}/token", data=form, auth=(client, secret))
    assert answer.status_code == 200, answer.text
    return answer.json()
