"""Groups from Google's directory and a file: found by whoever just joined, lost with the next sync, and never by a token's own word.

With `pytest -s`, the seconds from a change at the source until searches follow it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestration.cli import run
from resources.core.domain import SourceName
from resources.core.retrying import LONGEST_WAIT
from resources.people.sync import PeopleReport, sync_people
from resources.settings import Settings
from resources.stores.postgres import session
from serving.identity import api_keys
from sql.people import PeopleStates
from tests.fixtures.drive import DriveSite
from tests.fixtures.serving import PUBLIC_URL, Running, Site

ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@acme.com"
QUERY = "tide tables"


@dataclass
class Company:
    """An installation whose groups are Google's, and one document that is shared with the group `all`."""

    site: Site
    google: DriveSite

    def sync(self, **more: bool) -> PeopleReport:
        return sync_people(self.site.settings, sleep=lambda _: None, **more)["google_directory"]

    def age(self, hours: float) -> None:
        """Make the last reading older."""
        self.site.sql("UPDATE source_states SET directory_at = directory_at - %s * interval '1 hour'", hours)


def configure(site: Site, **more: object) -> None:
    site.settings = Settings.model_validate(dict(site.settings) | {"retry_seconds": (0.0,)} | more)


@pytest.fixture
def people_site(site: Site) -> Site:
    site.sql("DELETE FROM directory")
    site.sql("DELETE FROM people")
    site.sql("DELETE FROM source_states")
    site.add(
        "Tides", ["Tide tables of the harbour."], ["group:all@acme.com"], source=SourceName.GOOGLE_DRIVE, source_id="f1"
    )
    return site


@pytest.fixture
def company(people_site: Site, drive_site: DriveSite) -> Company:
    for email in (ANN, BOB, EVE):
        drive_site.drive.user(email)
    drive_site.drive.group("all@acme.com", ["eng@acme.com"])
    drive_site.drive.group("eng@acme.com", ["leads@acme.com", BOB])
    drive_site.drive.group("leads@acme.com", [ANN, "all@acme.com"])
    own = {"drive_token": drive_site.drive.token, "drive_api_url": drive_site.url}
    configure(people_site, google_directory_api_url=drive_site.url, **own)
    return Company(people_site, drive_site)


@pytest.fixture
def asked(company: Company) -> Iterator[Running]:
    with company.site.running() as running:
        yield running


def test_a_nested_member_finds_at_once_and_no_longer_after_leaving(company: Company, asked: Running) -> None:
    drive = company.google.drive
    assert asked.titles(QUERY, ANN) == []
    began = time.monotonic()
    report = company.sync()
    assert asked.titles(QUERY, ANN) == ["Tides"]
    joined = time.monotonic() - began
    assert asked.titles(QUERY, EVE) == []
    assert (report.people, report.groups, report.members, report.inactive) == (3, 3, 6, 0)
    assert report.calls == company.google.drive.calls.total() == 5
    drive.leave("leads@acme.com", ANN)
    assert asked.titles(QUERY, ANN) == ["Tides"]
    began = time.monotonic()
    company.sync()
    assert asked.titles(QUERY, ANN) == []
    left = time.monotonic() - began
    assert asked.titles(QUERY, BOB) == ["Tides"]
    print(f"\nfound {joined:.2f} s after the directory's sync began, lost {left:.2f} s after the next one began")  # noqa: T201


def test_groups_that_are_stale_grant_nothing(company: Company, asked: Running) -> None:
    company.sync()
    assert asked.titles(QUERY, ANN) == ["Tides"]
    company.age(25)
    assert asked.titles(QUERY, ANN) == []
    company.google.faults.add("server_error", times=0, match="users.list")
    assert "temporarily failing" in (company.sync().error or "")
    assert asked.titles(QUERY, ANN) == []
    company.google.faults.clear()
    assert company.sync().note is None
    assert asked.titles(QUERY, ANN) == ["Tides"]


def test_a_token_or_key_made_here_carries_no_groups_once_groups_are_managed(company: Company, asked: Running) -> None:
    with session(company.site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, EVE, ["all@acme.com"])
    for credential in (company.site.token(EVE, "all@acme.com"), key):
        answer = asked.http.post(
            "/api/rag/search", json={"query": QUERY}, headers={"Authorization": f"Bearer {credential}"}
        )
        assert answer.json()["results"] == []
    company.google.drive.join("eng@acme.com", EVE)
    company.sync()
    assert asked.titles(QUERY, EVE) == ["Tides"]


def test_without_a_source_of_groups_tokens_keep_theirs(people_site: Site) -> None:
    with people_site.running() as running:
        assert running.titles(QUERY, EVE, "all@acme.com") == ["Tides"]
        people_site.sql("INSERT INTO source_states (source, directory_at) VALUES ('slack', now())")
        assert running.titles(QUERY, EVE, "all@acme.com") == ["Tides"]


def test_a_suspended_user_is_refused_and_returns_without_keys_and_sessions(company: Company, asked: Running) -> None:
    company.sync()

    def statuses() -> list[int]:
        own = {"Origin": PUBLIC_URL, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
        given = [{"Authorization": f"Bearer {one}"} for one in (company.site.token(ANN), key)] + [cookie | own]
        return [asked.http.post("/api/rag/search", json={"query": QUERY}, headers=one).status_code for one in given]

    for lose, regain in (
        (lambda: company.google.drive.suspend(ANN), lambda: company.google.drive.reinstate(ANN)),
        (lambda: company.google.drive.user(ANN, archived=True), lambda: company.google.drive.user(ANN)),
        (lambda: company.google.drive.delete_user(ANN), lambda: company.google.drive.user(ANN)),
    ):
        with session(company.site.settings.postgres_dsn) as connection:
            key = api_keys.create(connection, ANN)
        cookie = company.site.session(ANN)
        assert statuses() == [200, 200, 200]
        lose()
        assert company.sync().inactive == 1
        company.sync()  # ends nothing again
        assert statuses() == [401, 401, 401]
        regain()
        assert company.sync().inactive == 0
        assert statuses() == [200, 401, 401]
    ended = company.site.sql("SELECT detail ->> 'person' FROM audit_log WHERE action = 'offboard'")
    assert ended == [(ANN,)] * 3


def test_an_address_that_is_given_to_another_account_brings_none_of_the_keys_of_the_former(company: Company) -> None:
    company.sync()
    with session(company.site.settings.postgres_dsn) as connection:
        api_keys.create(connection, ANN)
    company.site.session(ANN)
    company.site.sql("UPDATE people SET external_id = 'of the former Ann' WHERE email = %s RETURNING 1", ANN)
    for _ in range(2):
        company.sync()
        assert company.site.sql("SELECT 1 FROM api_keys WHERE email = %s AND revoked_at IS NULL", ANN) == []
        assert company.site.sql("SELECT 1 FROM sessions WHERE email = %s", ANN) == []
    ended = company.site.sql("SELECT detail ->> 'person' FROM audit_log WHERE action = 'offboard'")
    assert ended == [(ANN,)]


@pytest.mark.parametrize("suspended", [True, False])
def test_an_address_that_is_given_to_another_account_after_a_time_without_brings_no_keys(
    company: Company, *, suspended: bool
) -> None:
    company.google.drive.suspend(ANN)
    company.sync()
    with session(company.site.settings.postgres_dsn) as connection:
        api_keys.create(connection, ANN)
    company.site.session(ANN)
    company.site.sql("UPDATE people SET external_id = 'of the former Ann' WHERE email = %s RETURNING 1", ANN)
    if not suspended:
        company.google.drive.reinstate(ANN)
    for _ in range(2):
        company.sync()
        assert company.site.sql("SELECT 1 FROM api_keys WHERE email = %s AND revoked_at IS NULL", ANN) == []
        assert company.site.sql("SELECT 1 FROM sessions WHERE email = %s", ANN) == []
    ended = company.site.sql("SELECT detail ->> 'person' FROM audit_log WHERE action = 'offboard'")
    assert ended == [(ANN,)] * 2


def test_an_address_that_is_given_to_another_account_finds_nothing_of_the_former_ones_drive(
    company: Company, asked: Running
) -> None:
    company.site.add(
        "Hers", ["Tide tables of hers."], [ANN, EVE], source=SourceName.GOOGLE_DRIVE, source_id="f2", partition="drive"
    )
    company.sync()
    assert sorted(asked.titles(QUERY, ANN)) == ["Hers", "Tides"]
    company.site.sql("UPDATE people SET external_id = 'of the former Ann' WHERE email = %s RETURNING 1", ANN)
    company.sync()
    assert asked.titles(QUERY, ANN) == ["Tides"]
    assert asked.titles(QUERY, EVE) == ["Hers"]
    told = "SELECT partition FROM source_memory WHERE source = 'google_drive' AND key = '!renamed'"
    assert company.site.sql(told) == [("drive",)]


def test_a_token_of_the_former_holder_of_an_address_does_not_sign_in_as_the_present_one(company: Company) -> None:
    site = company.site
    former = site.earlier_token(ANN)

    def refusals() -> list[str]:
        with site.running() as running:
            answers = [
                running.http.post(
                    "/api/rag/search", json={"query": QUERY}, headers={"Authorization": f"Bearer {token}"}
                )
                for token in (former, site.token(ANN))
            ]
        return [one.json().get("type", "") for one in answers]

    company.sync()
    assert refusals() == ["", ""]
    site.sql("UPDATE people SET external_id = 'of the former Ann' WHERE email = %s RETURNING 1", ANN)
    for _ in range(2):
        company.sync()
        assert refusals() == ["/problems/token-revoked", ""]
    site.settings = site.settings.model_copy(update={"postgres_url": SecretStr("postgresql://127.0.0.1:9/none")})
    assert refusals() == ["/problems/token-revoked", ""]


def test_someone_who_is_inactive_when_first_seen_is_off_boarded(company: Company) -> None:
    company.sync()
    left = "left@acme.com"
    with session(company.site.settings.postgres_dsn) as connection:
        api_keys.create(connection, left)
    company.site.session(left)
    company.google.drive.user(left, archived=True)
    company.sync()
    company.sync()  # ends nothing again
    valid = "SELECT count(*) FROM api_keys WHERE email = %s AND revoked_at IS NULL"
    assert company.site.sql(valid, left) == [(0,)]
    assert company.site.sql("SELECT count(*) FROM sessions WHERE email = %s", left) == [(0,)]
    ended = company.site.sql("SELECT detail ->> 'person' FROM audit_log WHERE action = 'offboard'")
    assert ended == [(left,)]


def test_a_group_that_cannot_be_read_keeps_its_members_until_they_are_stale(company: Company, asked: Running) -> None:
    company.sync()
    company.age(20)
    company.google.drive.join("leads@acme.com", EVE)
    for _ in range(2):
        company.google.faults.add("lost_access", times=0, match="members.list")
        report = company.sync()
        assert report.groups == 0
        assert "3 groups could not be read" in (report.note or "")
        assert asked.titles(QUERY, ANN) == ["Tides"]
        assert asked.titles(QUERY, EVE) == []
    company.site.sql("UPDATE directory SET read_at = read_at - interval '5 hours'")
    assert asked.titles(QUERY, ANN) == []
    company.google.faults.clear()
    company.sync()
    assert asked.titles(QUERY, EVE) == ["Tides"]


def test_most_people_vanishing_at_once_is_held_until_approved(company: Company, asked: Running) -> None:
    many = [f"p{number}@acme.com" for number in range(20)]
    for email in many:
        company.google.drive.user(email)
    company.google.drive.group("all@acme.com", [*many, "eng@acme.com"])
    company.sync()
    for email in many:
        company.google.drive.delete_user(email)
    report = company.sync()
    assert (report.held, report.inactive) == (20, 0)
    assert "concordance sync directory --approve" in (report.note or "")
    assert asked.request("POST", "/api/rag/search", many[0], json={"query": QUERY}).json()["results"] == []
    company.google.drive.suspend(BOB)
    assert company.sync().inactive == 1
    assert asked.request("POST", "/api/rag/search", BOB, json={"query": QUERY}).status_code == 401
    assert (company.sync(approve=True).inactive, company.sync().held) == (21, 0)
    assert asked.request("POST", "/api/rag/search", many[0], json={"query": QUERY}).status_code == 401
    assert asked.titles(QUERY, ANN) == ["Tides"]


def test_a_service_account_that_may_not_read_the_directory_is_no_fault(company: Company, tmp_path: Path) -> None:
    from resources.people import groups_are_managed
    from tests.fixtures.drive import service_account_file

    company.google.drive.sessions.delegated = {"https://www.googleapis.com/auth/drive.readonly"}
    key = service_account_file(tmp_path, company.google.url)
    configure(
        company.site,
        google_directory_api_url=None,
        drive_token=None,
        google_service_account_file=key,
        google_subject=ANN,
    )
    report = company.sync()
    assert report.error is None
    assert "is not read" in (report.note or "")
    assert not groups_are_managed(company.site.settings, read(company.site))


def read(site: Site) -> list[str]:
    with session(site.settings.postgres_dsn) as connection:
        return [one.source for one in PeopleStates(connection).states() if one.directory_at is not None]


def test_the_file_grants_and_a_faulty_file_changes_nothing(people_site: Site, tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text(f"group,member\nall@acme.com,eng@acme.com\neng@acme.com,{ANN}\n")
    configure(people_site, groups_file=path)
    with people_site.running() as running:
        assert running.titles(QUERY, BOB, "all@acme.com") == []
        assert sync_people(people_site.settings)["groups_file"] == PeopleReport(people=1, groups=2, members=2)
        assert running.titles(QUERY, ANN) == ["Tides"]
        path.write_text(f"group,member\nall@acme.com,{BOB}\nall,oops\n")
        assert "line 3" in (sync_people(people_site.settings)["groups_file"].error or "")
        assert (running.titles(QUERY, ANN), running.titles(QUERY, BOB)) == (["Tides"], [])
        path.write_text(f"group,member\nall@acme.com,{BOB}\n")
        sync_people(people_site.settings)
        assert (running.titles(QUERY, ANN), running.titles(QUERY, BOB)) == ([], ["Tides"])


def test_me_says_where_each_principal_comes_from(company: Company, asked: Running) -> None:
    company.sync()
    body = asked.request("GET", "/api/me", ANN, "other@acme.com").json()
    found = {one["principal"]: one for one in body["principals"]}
    assert (body["email"], body["active"], body["admin"], body["groups_are_managed"]) == (ANN, True, False, True)
    assert set(found) == {
        ANN,
        "domain:acme.com",
        "public",
        *(f"group:{one}@acme.com" for one in ("all", "eng", "leads")),
    }
    assert (found["group:all@acme.com"]["origin"], found["group:all@acme.com"]["through"]) == (
        "google_directory",
        "eng@acme.com",
    )
    assert found["group:leads@acme.com"]["through"] is None
    company.age(25)
    again = asked.request("GET", "/api/me", ANN).json()["principals"]
    assert {one["counts"] for one in again if one["origin"] == "google_directory"} == {False}
    assert asked.request("GET", f"/api/me?email={BOB}", ANN).json()["email"] == ANN
    assert asked.http.get("/api/me").status_code == 401


def test_me_names_the_credential_of_a_group(people_site: Site) -> None:
    with people_site.running() as running:
        body = running.request("GET", "/api/me", EVE, "all@acme.com", admin=True).json()
        origins = {one["principal"]: one["origin"] for one in body["principals"]}
        assert (origins["group:all@acme.com"], body["admin"], body["groups_are_managed"]) == ("token", True, False)


@pytest.fixture
def environment(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = company.site.settings
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", settings.postgres_dsn)
    monkeypatch.setenv("CONCORDANCE_HOME", str(settings.home))
    monkeypatch.setenv("CONCORDANCE_QDRANT_URL", str(settings.qdrant_url))
    for name in ("DRIVE_API_URL", "GOOGLE_DIRECTORY_API_URL"):
        monkeypatch.setenv(f"CONCORDANCE_{name}", company.google.url)
    monkeypatch.setenv("CONCORDANCE_DRIVE_TOKEN", company.google.drive.token)


@pytest.mark.usefixtures("environment")
def test_the_commands(company: Company, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sync", "directory", "--wait"]) == 0
    assert "google_directory: 3 people, 3 groups, 6 memberships; 0 inactive; 5 calls." in capsys.readouterr().out
    assert run(["whoami", ANN]) == 0
    shown = capsys.readouterr()
    assert "group:all@acme.com" in shown.out
    assert "through eng@acme.com" in shown.out
    assert "google_directory" in shown.err
    company.google.drive.suspend(ANN)
    assert run(["sync", "directory", "--json"]) == 0
    assert '"inactive":1' in capsys.readouterr().out
    assert run(["whoami", ANN]) == 0
    assert "INACTIVE" in capsys.readouterr().out
    assert run(["token", EVE, "--group", "all@acme.com"]) == 0
    assert "--group are ignored" in capsys.readouterr().err
    assert run(["key", "create", EVE, "--group", "all@acme.com"]) == 0
    assert "--group are ignored" in capsys.readouterr().err
    assert run(["status"]) in {0, 1, 3}
    assert "google_directory" in capsys.readouterr().out
    company.google.faults.add("rate_limit", times=0, seconds=LONGEST_WAIT + 1)  # other faults are retried for 36 s
    assert run(["sync", "directory"]) == 1
    assert "asks to slow down" in capsys.readouterr().err
    assert run(["sync", "directory", "--full"]) == 2
    assert run(["sync", "files", "--approve"]) == 2
