"""`GET /api/principals` suggests whom a caller may know, and nobody else."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from tests.fixtures.serving import Running, Site

ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@elsewhere.org"


def suggested(running: Running, prefix: str, who: str = ANN, *groups: str) -> list[str]:
    answer = running.request("GET", "/api/principals", who, *groups, params={"prefix": prefix})
    assert answer.status_code == 200, answer.text
    return [one["principal"] for one in answer.json()["principals"]]


def person(site: Site, email: str, name: str | None, source: str = "scim", *, active: bool = True) -> None:
    site.sql("INSERT INTO people (source, email, name, active) VALUES (%s, %s, %s, %s)", source, email, name, active)


@pytest.fixture
def directory(site: Site) -> Site:
    person(site, ANN, "Ann Archer")
    person(site, BOB, "Bob Bell")
    person(site, "b%_zoe@acme.com", "Zoë Bo")
    person(site, "bodo@elsewhere.org", "Bodo")
    person(site, "bonnie@acme.com", "Bonnie Blue", active=False)
    person(site, "boris@acme.com", "Boris", source="google_directory")
    return site


def test_colleagues_are_found_by_the_beginning_of_address_or_name(directory: Site, running: Running) -> None:
    assert directory.sql("SELECT count(*) FROM people") == [(6,)]
    assert suggested(running, "bo") == [BOB]
    assert suggested(running, " BOB b ") == [BOB]
    assert suggested(running, "zo") == ["b%_zoe@acme.com"]
    assert suggested(running, "b%") == ["b%_zoe@acme.com"]
    assert suggested(running, "b_") == suggested(running, "ob") == suggested(running, "b") == []
    assert suggested(running, "an") == [], "nobody shares with themselves"


def test_people_are_suggested_only_to_those_whom_their_directory_knows(directory: Site, running: Running) -> None:
    assert suggested(running, "bo", "stranger@acme.com") == []
    assert suggested(running, "bo", EVE) == []
    person(directory, EVE, "Eve")
    assert suggested(running, "bo", EVE) == ["bodo@elsewhere.org"], "people of one's own domain only"
    person(directory, ANN, "Ann", source="google_directory")
    assert suggested(running, "bo") == [BOB, "boris@acme.com"]
    person(directory, BOB, "Bob", source="google_directory", active=False)
    assert suggested(running, "bo") == ["boris@acme.com"], "whom any directory reports as inactive is no colleague"


def test_people_who_are_signed_in_are_known_in_the_companys_domain_only(site: Site) -> None:
    site.session(BOB)
    site.session("eva@elsewhere.org")
    with site.running() as running:  # the provider does not say whose domain it is
        assert suggested(running, "bo") == suggested(running, "eva", EVE) == []
    named = '[{"name": "Acme", "issuer": "https://id.example", "client_id": "concordance", "domains": ["acme.com"]}]'
    site.settings = site.settings.model_copy(update={"oidc_providers": SecretStr(named)})
    with site.running() as running:
        assert suggested(running, "bo") == [BOB]
        assert suggested(running, "eva", EVE) == []
        site.sql("UPDATE sessions SET expires_at = now()")
        assert suggested(running, "bo") == []


def test_one_s_own_domain_and_groups_are_offered_at_once(site: Site, running: Running) -> None:
    site.add("Plan", ["The plan."], ["group:board@acme.com", "bodo@acme.com", ANN], owner="boss@acme.com")
    assert suggested(running, "") == ["domain:acme.com"]
    assert suggested(running, "", ANN, "crew@acme.com") == ["domain:acme.com", "group:crew@acme.com"]
    assert suggested(running, "CREW", ANN, "crew@acme.com") == ["group:crew@acme.com"]
    assert suggested(running, "bo") == [], "nothing is derived from documents"
    assert running.http.get("/api/principals").status_code == 401
    assert running.request("GET", "/api/principals", ANN, params={"prefix": "x" * 101}).status_code == 400
