"""The simulated Drive apart from its methods: faults, batches, sign-in, remote control, and its start page."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import google.auth.exceptions
import httpx
import pytest
from google.auth.transport.requests import Request
from google.oauth2.credentials import Credentials
from google.oauth2.service_account import Credentials as ServiceAccount
from googleapiclient.errors import HttpError
from googleapiclient.http import BatchHttpRequest, HttpRequest

from simulators import serve
from simulators.drive import DriveApp, SimulatedDrive
from simulators.faults import PASSING, Faults
from tests.fixtures.drive import DriveSite, service_account_file

SCOPE = "https://www.googleapis.com/auth/drive.readonly"


@pytest.fixture
def drive(drive_site: DriveSite) -> SimulatedDrive:
    return drive_site.drive


@pytest.fixture
def api(drive_site: DriveSite) -> Any:
    return drive_site.service()


def failure(call: HttpRequest) -> HttpError:
    with pytest.raises(HttpError) as caught:
        call.execute()
    return caught.value


def reason(error: HttpError) -> tuple[int, str]:
    return error.resp.status, error.error_details[0]["reason"]


def test_rate_limits_come_in_both_of_googles_ways(drive_site: DriveSite, api: Any) -> None:
    drive_site.faults.add("rate_limit", times=2, match="files.list", seconds=7)
    assert api.changes().getStartPageToken().execute()
    first, second = failure(api.files().list()), failure(api.files().list())
    assert (reason(first), first.resp["retry-after"]) == ((429, "rateLimitExceeded"), "7")
    assert (reason(second), second.resp["retry-after"]) == ((403, "userRateLimitExceeded"), "7")
    assert json.loads(first.content)["error"]["errors"][0]["domain"] == "usageLimits"
    assert api.files().list().execute()["files"] == []
    assert drive_site.drive.calls == {"files.list": 3, "changes.getStartPageToken": 1}
    assert drive_site.faults.committed == {"rate_limit": 2}


def test_faults_that_answer_with_an_error(drive_site: DriveSite, api: Any) -> None:
    file = drive_site.drive.file("Note.txt", drive_site.drive.my_drive, "x")
    drive_site.faults.add("server_error")
    assert reason(failure(api.files().list())) == (500, "backendError")
    drive_site.faults.add("unauthorized")
    with pytest.raises(google.auth.exceptions.RefreshError):  # the client tries to refresh its token at a 401
        api.files().list().execute()
    drive_site.faults.add("lost_access", times=3)
    assert reason(failure(api.files().get(fileId=file))) == (404, "notFound")
    assert reason(failure(api.changes().getStartPageToken(driveId="d"))) == (404, "notFound")
    assert reason(failure(api.files().list())) == (403, "insufficientFilePermissions")
    drive_site.faults.add("bad_page_token")
    token = api.changes().getStartPageToken().execute()["startPageToken"]
    assert api.files().list().execute()["files"]
    assert reason(failure(api.changes().list(pageToken=token))) == (400, "invalid")
    assert api.changes().list(pageToken=token).execute()["changes"] == []
    with pytest.raises(ValueError, match="Known faults"):
        drive_site.faults.add("meteor")  # type: ignore[arg-type]


def test_a_dropped_connection_is_cut_in_the_middle_of_an_answer(drive_site: DriveSite, api: Any) -> None:
    file = drive_site.drive.file("Note.txt", drive_site.drive.my_drive, "x" * 1_000_000)
    for call in (api.files().list(), api.files().get_media(fileId=file)):
        drive_site.faults.add("drop")
        with pytest.raises(http.client.IncompleteRead):
            call.execute()
        assert call.execute()


def test_a_slow_answer_arrives(drive_site: DriveSite, api: Any) -> None:
    drive_site.faults.add("slow", seconds=0.01)
    assert api.files().list().execute()["files"] == []
    assert drive_site.faults.committed == {"slow": 1}


def test_faults_last_until_cleared_and_repeat_by_their_seed() -> None:
    faults = Faults()
    faults.add("unauthorized", times=0)
    assert [faults.take("files.get") for _ in range(3)].count(None) == 0
    faults.clear()
    assert faults.take("files.get") is None

    def committed(seed: int, other: int) -> list[str | None]:
        faults.random(seed, 0.3)
        found: list[str | None] = []
        for _ in range(100):
            for _ in range(other):
                faults.take("changes.list")
            fault = faults.take("files.get")
            found.append(fault and fault.kind)
        return found

    first = committed(1, 0)
    assert committed(1, 2) == first != committed(2, 0)
    assert set(first) <= {None, *PASSING}
    assert 15 < 100 - first.count(None) < 45


def test_only_good_tokens_are_accepted(drive_site: DriveSite) -> None:
    with pytest.raises(google.auth.exceptions.RefreshError):
        drive_site.service("stolen").files().list().execute()
    answer = httpx.get(f"{drive_site.url}/drive/v3/files")
    assert (answer.status_code, answer.json()["error"]["errors"][0]["location"]) == (401, "Authorization")
    assert "Bearer" in answer.headers["www-authenticate"]
    assert httpx.get(f"{drive_site.url}/drive/v3/comments", headers={"authorization": "Bearer x"}).status_code == 404


def test_batches(drive_site: DriveSite, drive: SimulatedDrive, api: Any) -> None:
    files = [drive.file(f"{number} ü.txt", drive.my_drive, "x") for number in range(100)]
    answers: dict[str, Any] = {}

    def take(name: str, answer: Any, error: HttpError | None) -> None:
        answers[name] = answer if error is None else reason(error)

    def begin() -> BatchHttpRequest:
        # the client's own `new_batch_http_request` only knows Google's address
        return BatchHttpRequest(callback=take, batch_uri=f"{drive_site.url}/batch/drive/v3")

    def ask(ids: list[str]) -> None:
        batch = begin()
        for file in ids:
            batch.add(api.files().get(fileId=file, fields="name"), request_id=file)
        batch.execute()

    ask(files)
    assert answers == {file: {"name": f"{number} ü.txt"} for number, file in enumerate(files)}
    assert drive.calls == {"batch": 1, "files.get": 100}
    drive_site.faults.add("rate_limit", match="files.get")
    drive_site.faults.add("drop", match="files.get")
    ask(["nothing", *files[:2]])
    assert answers["nothing"] == (429, "rateLimitExceeded")
    assert answers[files[0]] == (500, "backendError")
    assert answers[files[1]] == {"name": "1 ü.txt"}
    ask(["nothing"])
    assert answers["nothing"] == (404, "notFound")
    with pytest.raises(HttpError):
        ask([f"{number}" for number in range(101)])
    drive_site.faults.add("server_error", match="batch")
    with pytest.raises(HttpError):
        ask(files[:1])
    media = begin()
    media.add(api.files().get_media(fileId=files[0]), request_id="media")
    media.execute()
    assert answers["media"] == (400, "badRequest")


def consent(url: str, **more: str) -> dict[str, str]:
    """Return the parameters of the callback that the consent page redirects to."""
    asked = {
        "client_id": "client", "redirect_uri": "http://localhost:9/callback?x=1", "response_type": "code",
        "scope": SCOPE, "state": "s1", "access_type": "offline", **more,
    }  # fmt: skip
    answer = httpx.get(f"{url}/o/oauth2/v2/auth", params=asked)
    assert answer.status_code == 302
    target = urlsplit(answer.headers["location"])
    assert (target.netloc, target.path) == ("localhost:9", "/callback")
    return {name: values[0] for name, values in parse_qs(target.query).items()}


def exchange(url: str, **form: str) -> httpx.Response:
    given = {
        "client_id": "client",
        "client_secret": "secret",
        "redirect_uri": "http://localhost:9/callback?x=1",
        **form,
    }
    return httpx.post(f"{url}/token", data=given)


def test_sign_in_of_a_person(drive_site: DriveSite, drive: SimulatedDrive) -> None:
    back = consent(drive_site.url)
    assert (back["state"], back["x"]) == ("s1", "1")
    tokens = exchange(drive_site.url, grant_type="authorization_code", code=back["code"]).json()
    assert tokens["token_type"] == "Bearer"
    assert drive_site.service(tokens["access_token"]).files().list().execute()["files"] == []
    again = exchange(drive_site.url, grant_type="authorization_code", code=back["code"])
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    credentials = Credentials(
        None,
        refresh_token=tokens["refresh_token"],
        token_uri=f"{drive_site.url}/token",
        client_id="client",
        client_secret="s",
    )
    credentials.refresh(Request())
    first = credentials.token
    drive.sessions.expire()
    credentials.refresh(Request())
    assert credentials.token != first
    drive.revoke()
    with pytest.raises(google.auth.exceptions.RefreshError, match="invalid_grant"):
        credentials.refresh(Request())
    with pytest.raises(google.auth.exceptions.RefreshError):
        drive_site.service(credentials.token).files().list().execute()


def test_sign_in_that_goes_wrong(drive_site: DriveSite, drive: SimulatedDrive) -> None:
    assert "refresh_token" not in exchange(
        drive_site.url, grant_type="authorization_code", code=consent(drive_site.url, access_type="online")["code"]
    ).json()  # fmt: skip
    code = consent(drive_site.url)["code"]
    other = exchange(
        drive_site.url, grant_type="authorization_code", code=code, redirect_uri="http://localhost:9/other"
    )
    assert other.json()["error"] == "redirect_uri_mismatch"
    code = consent(drive_site.url, code_challenge="x", code_challenge_method="S256")["code"]
    assert exchange(drive_site.url, grant_type="authorization_code", code=code, code_verifier="y").status_code == 400
    drive.sessions.client_secret = "other"
    assert exchange(drive_site.url, grant_type="refresh_token", refresh_token="x").json()["error"] == "invalid_client"
    drive.sessions.client_secret = None
    assert exchange(drive_site.url, grant_type="refresh_token", refresh_token="x").json()["error"] == "invalid_grant"
    assert exchange(drive_site.url, grant_type="password").json()["error"] == "unsupported_grant_type"
    drive.sessions.consents = False
    assert consent(drive_site.url)["error"] == "access_denied"
    assert httpx.get(f"{drive_site.url}/o/oauth2/v2/auth").status_code == 400


def test_sign_in_of_a_service_account(drive_site: DriveSite, drive: SimulatedDrive, tmp_path: Path) -> None:
    path = service_account_file(tmp_path, drive_site.url)
    account = ServiceAccount.from_service_account_file(str(path), scopes=[SCOPE])
    account.refresh(Request())
    assert drive_site.service(account.token).files().list().execute()["files"] == []
    delegated = account.with_subject(drive.account)
    delegated.refresh(Request())
    drive.revoke()
    with pytest.raises(google.auth.exceptions.RefreshError, match="invalid_grant"):
        account.refresh(Request())
    drive.sessions.restore()
    account.refresh(Request())


def test_orders_from_people(drive_site: DriveSite, drive: SimulatedDrive) -> None:
    def order(operation: str, **arguments: Any) -> Any:
        answer = httpx.post(f"{drive_site.url}/simulator/{operation}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json().get("result")

    plans = order("shared_drive", name="Plans", members={"user:ada@larkmoor.example": "reader"})
    file = order(
        "file",
        name="Blob",
        parent=plans,
        content={"base64": "AAE="},
        mime_type="image/png",
        modified="2026-01-01T00:00:00Z",
    )
    sheet = order("file", name="Sheet", parent=drive.my_drive, content={"A": [[1, "x"]]}, mime_type="spreadsheet")
    assert drive.items[file].content == b"\x00\x01"
    assert drive.items[sheet].sheets == {"A": [[1, "x"]]}
    order("share", id=file, who="user:bob@larkmoor.example", expires="2099-01-01T00:00:00Z")
    assert order("readers", id=file) == ["ada@larkmoor.example", "bob@larkmoor.example", drive.account]
    state = httpx.get(f"{drive_site.url}/simulator/state").json()
    assert [item["name"] for item in state["items"]] == ["Blob", "Sheet"]
    assert state["shared_drives"][0]["members"]["user:ada@larkmoor.example"] == "reader"
    order("faults", kind="server_error", match="files.get")
    with pytest.raises(HttpError):
        drive_site.service().files().get(fileId=sheet).execute()
    order("faults", seed=1, share=1.0)
    order("faults", clear=True)
    assert drive_site.service().files().get(fileId=sheet).execute()
    for operation, arguments, status in (
        ("explode", {}, 404),
        ("trash", {"id": "nothing"}, 404),
        ("trash", {"what": "x"}, 400),
        ("trash", {"id": plans}, 400),
        ("faults", {"kind": "meteor"}, 400),
        ("share", {"id": file, "who": "anyone", "expires": "2026-01-01"}, 400),
    ):
        answer = httpx.post(f"{drive_site.url}/simulator/{operation}", json=arguments)
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


def test_the_page_says_how_to_connect(drive_site: DriveSite, drive: SimulatedDrive) -> None:
    drive.shared_drive("<Plans>", {})
    page = httpx.get(drive_site.url).text
    for part in (
        drive_site.url,
        SimulatedDrive.token,
        drive.my_drive,
        "&lt;Plans&gt;",
        "rename_drive(drive_id, name)",
        "rate_limit",
    ):
        assert part in page
    assert "<Plans>" not in page


def test_answers_are_checked_against_the_discovery_document(drive_site: DriveSite, drive: SimulatedDrive) -> None:
    file = drive.file("Note.txt", drive.my_drive, "x")
    drive_site.service().files().get(fileId=file, fields="*").execute()
    assert (drive_site.checker.checked, drive_site.checker.problems) == (1, [])
    for method, body in (
        ("drive.files.get", {"id": file, "colour": "red"}),
        ("drive.files.get", {"size": 5}),
        ("drive.files.get", {"size": "5.0"}),
        ("drive.files.get", {"modifiedTime": "2026-01-01"}),
        ("drive.files.list", {"files": [{"owners": [{"mail": "x"}]}]}),
        ("drive.changes.list", {"changes": [{"removed": "no"}]}),
    ):
        drive_site.checker.check(method, body)
        assert len(drive_site.checker.problems) == 1, method
        drive_site.checker.problems.clear()


def test_a_simulator_can_be_served_again_at_its_port() -> None:
    drive = SimulatedDrive()
    with serve(DriveApp(drive)) as url:
        port = urlsplit(url).port
        assert httpx.get(url).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    with serve(DriveApp(drive), port=port or 0) as again:
        assert again == url
        assert httpx.get(url).status_code == 200
