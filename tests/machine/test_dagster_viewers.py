"""What Dagster stores of documents, and what those who may open it can fetch: nothing names a hidden document."""

from __future__ import annotations

import gzip
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import dagster as dg
import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from orchestration.supervision.dagster_gate import MAX_BODY_BYTES
from resources.core.domain import Item
from resources.core.errors import FailedDocumentError
from resources.dagster_access import Role
from resources.sources.files import Files
from tests.fixtures.dagster import PEOPLE, RUNS, Dagster, link_of
from tests.fixtures.dagster_runs import DagsterRuns, dagster_storage_url
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Running

pytestmark = pytest.mark.xdist_group("dagster")

SKIPPED, FAILED, REFUSED, CRASHED, CHOSEN = "wombatskip", "wombatfail", "wombatrefuse", "wombatcrash", "wombatchosen"
CANARIES = (SKIPPED, FAILED, REFUSED, CRASHED, CHOSEN)
"""Words of names of hidden documents: one each that is skipped, fails and is refused, one in the text of an unexpected error, and one
that an operator names in the configuration of a run."""
READ = Files.fetch
LOGS = """{ logsForRun(runId: "%s") { ... on EventConnection { events { ... on MessageEvent { message }
         ... on ExecutionStepFailureEvent { error { message stack causes { message } } errorSource } } } } }"""
READS = [
    LOGS,
    """{ capturedLogs(logKey: ["%s", "compute_logs", "x"]) { stdout stderr } }""",
    """{ runOrError(runId: "%s") { ... on Run { eventConnection { events { __typename } } } } }""",
    """{ runOrError(runId: "%s") { ... on Run { runConfig } } }""",
    """{ runOrError(runId: "%s") { ... on Run { runId: runConfigYaml status stats { ... on PythonError { message stack } } } } }""",
    """{ runsOrError { ... on Runs { results { id runConfigYaml tags { key value } } } } # %s
       }""",
    """{ assetOrError(assetKey: {path: ["files", "raw"]}) { ... on Asset { assetMaterializations { partition runId label metadataEntries {
         label description __typename ... on TableMetadataEntry { table { records } } ... on TextMetadataEntry { text }
         ... on JsonMetadataEntry { jsonString } ... on PathMetadataEntry { path } } } } } # %s
       }""",
]
EVENTS = 'subscription { pipelineRunLogs(runId: "%s") { ... on PipelineRunLogsSubscriptionSuccess { messages { __typename } } } }'


class Synced(NamedTuple):
    """Runs, and what was logged meanwhile."""

    runs: list[str]
    log: str


def fetch(source: Files, item: Item) -> Iterator[bytes]:
    """Fetch an item as the source does, but for the one that fails."""
    if FAILED in item.source_id:
        raise FailedDocumentError(f"{item.source_id} cannot be read now.")
    return READ(source, item)


@contextmanager
def instance_of(dagster: Dagster) -> Iterator[dg.DagsterInstance]:
    """The instance of the running webserver, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONCORDANCE_DAGSTER_POSTGRES_URL", dagster_storage_url(dagster.settings.postgres_dsn))
        patch.setenv("DAGSTER_REDACT_USER_CODE_ERRORS", "1")
        with dg.DagsterInstance.from_config(str(dagster.settings.home / "dagster")) as instance:
            yield instance


@pytest.fixture
def synced(dagster: Dagster, installation: Installation, capfd: pytest.CaptureFixture[str]) -> Synced:
    """A run with a skipped, a failed and a refused document, one that ends with an error, and one of an unknown document."""
    with instance_of(dagster) as instance, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, "fetch", fetch)
        runs = DagsterRuns(installation, instance, patch)
        runs.roots("docs", "notes")
        installation.write("otter.txt", "The otter of the river sleeps until noon.\n")
        installation.write(f"{SKIPPED}.docx", b"PK no archive", permissions=["ceo@acme.com"])
        installation.write(f"{FAILED}.txt", "Nobody reads this.\n", permissions=["ceo@acme.com"])
        installation.write(f"{REFUSED}.exe", b"MZ", permissions=["ceo@acme.com"])
        ids = [runs.sync().dagster_run.run_id]
        config = {"resources": {"syncs": {"config": {"documents": [f"docs/{CHOSEN}.txt"]}}}}
        ids.append(runs.sync(succeeds=False, run_config=config).dagster_run.run_id)

        def crash(*_: Any, **__: Any) -> None:
            raise RuntimeError(f"docs/{CRASHED}.txt is odd") from OSError(f"no {CRASHED}")

        patch.setattr("assets.pipeline.collect", crash)
        ids.append(runs.sync(succeeds=False).dagster_run.run_id)
        return Synced(ids, capfd.readouterr().err)


def told(text: str) -> list[str]:
    return [word for word in CANARIES if word in text]


def test_dagster_stores_nothing_that_names_a_document(
    dagster: Dagster, synced: Synced, installation: Installation
) -> None:
    errors = installation.rows("SELECT source_id, stage, outcome FROM sync_errors ORDER BY source_id")
    assert [(row["source_id"], row["stage"], row["outcome"]) for row in errors] == [
        (f"docs/{FAILED}.txt", "raw", "failed"),
        (f"docs/{REFUSED}.exe", "raw", "skipped"),
        (f"docs/{SKIPPED}.docx", "raw", "skipped"),
    ], "names are in Postgres, for operators"
    with psycopg.connect(dagster.settings.postgres_dsn) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'dagster'").fetchall()
        rows = {
            name: [
                text
                for (text,) in connection.execute(SQL("SELECT t::text FROM dagster.{} AS t").format(Identifier(name)))
            ]
            for (name,) in tables
        }
    assert any(run in text for run in synced.runs for text in rows["event_logs"])
    found = {name: told("\n".join(texts)) for name, texts in rows.items()}
    # What an operator writes into the configuration of a run is stored with the run; viewers do not see it.
    assert {name: words for name, words in found.items() if set(words) - {CHOSEN}} == {}
    assert found["event_logs"] == []
    assert "document_skipped" in synced.log
    assert set(told(synced.log)) <= {CRASHED}, "the text of an unexpected error is for the account of the machine"
    home = dagster.settings.home / "dagster"
    files = [file for file in home.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if "compute_logs" in file.parts or told(file.read_text(errors="replace"))]


def fetched(dagster: Dagster, client: httpx.Client, runs: list[str]) -> dict[str, tuple[int, str]]:
    """Fetch everything that could hold logs or metadata; return status and text by request."""
    found: dict[str, tuple[int, str]] = {}
    for run in runs:
        paths = [f"/download_debug/{run}", *(f"/logs/{run}/compute_logs/files__raw.{end}" for end in ("out", "err"))]
        for path in [*paths, f"/runs/{run}", "/notebook?path=x.ipynb&repoLocName=x"]:
            answer = client.get(dagster.url + path)
            body = answer.content
            with suppress(OSError):
                body = gzip.decompress(body)
            found[path] = answer.status_code, body.decode(errors="replace")
        for query in READS:
            for method, content in (
                ("POST", {"json": {"query": query % run}}),
                ("GET", {"params": {"query": query % run}}),
            ):
                answer = client.request(method, f"{dagster.url}/graphql", **content)
                found[f"{method} {query % run}"] = answer.status_code, answer.text
    return found


def test_nobody_who_may_only_look_finds_the_name_of_a_document(
    dagster: Dagster, synced: Synced, dagster_people: Running, subtests: pytest.Subtests
) -> None:
    everyone = {who: httpx.Client(timeout=120) for who in ("auditor", "curator", "user")}
    everyone["a printed read-only link"] = httpx.Client(timeout=120, headers=dagster.bearer("viewer"))
    for who, client in everyone.items():
        with subtests.test(who), client:
            if who == "auditor":
                assert client.get(link_of(dagster_people, who)).status_code == 200
            found = fetched(dagster, client, synced.runs)
            assert {what: told(text) for what, (_, text) in found.items() if told(text)} == {}
            looks = who in ("auditor", "a printed read-only link")
            refused = {what for what, (status, _) in found.items() if status in (400, 401, 403)}
            if not looks:
                assert refused == found.keys()
                continue
            assert {what for what in found if what.startswith(("/download", "/logs", "/notebook"))} <= refused
            assert {
                f"{method} {query % run}" for query in READS[:4] for run in synced.runs for method in ("GET", "POST")
            } <= refused
            assert found[f"POST {READS[5] % synced.runs[0]}"][0] == 200
            assert "not shown" not in found[f"POST {READS[6] % synced.runs[0]}"][1]
            cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            headers = {"cookie": cookies} if cookies else dagster.bearer("viewer")
            with pytest.raises(InvalidStatus):
                connect(f"{dagster.url.replace('http', 'ws')}/graphql", additional_headers=headers)


def test_an_operator_reads_the_events_of_a_run_without_names(
    dagster: Dagster, synced: Synced, dagster_people: Running
) -> None:
    with httpx.Client(timeout=120) as client:
        client.get(link_of(dagster_people, "operator"))
        found = fetched(dagster, client, [synced.runs[0], synced.runs[2]])
        named = {what: told(text) for what, (_, text) in found.items() if told(text)}
        assert {word for words in named.values() for word in words} <= {CHOSEN}, "what operators wrote themselves"
        assert "unexpected error (RuntimeError)" in found[f"POST {LOGS % synced.runs[2]}"][1]
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    address = f"{dagster.url.replace('http', 'ws')}/graphql"
    with connect(address, additional_headers={"cookie": cookies}, subprotocols=["graphql-ws"]) as opened:  # type: ignore[list-item]
        opened.send(json.dumps({"type": "connection_init"}))
        opened.send(json.dumps({"type": "start", "id": "1", "payload": {"query": EVENTS % synced.runs[0]}}))
        texts = [str(opened.recv(60)) for _ in range(2)]
    assert '"type":"data"' in texts[1].replace(" ", "")
    assert told(" ".join(texts)) == []


def partitions_in_dagster(dagster: Dagster, client: httpx.Client) -> set[str]:
    answer = client.post(f"{dagster.url}/graphql", json={"query": READS[6] % ""})
    assert answer.status_code == 200, answer.text
    events = answer.json()["data"]["assetOrError"]["assetMaterializations"]
    return {one["partition"] for one in events if one["partition"] is not None}


@pytest.mark.usefixtures("synced")
def test_dagster_shows_a_role_nothing_that_the_page_of_sources_does_not(
    dagster: Dagster, dagster_people: Running
) -> None:
    named = {"docs", "notes"}
    for who, email in PEOPLE.items():
        sources = dagster_people.http.get(
            "/api/sources", headers={"Authorization": f"Bearer {dagster_people.site.token(email)}"}
        )
        (files,) = (one for one in sources.json()["sources"] if one["source"] == "files")
        in_sources = {one["partition"] for one in files.get("partitions", [])}
        with httpx.Client(timeout=120) as client:
            opened = dagster_people.http.get("/dagster", headers=dagster_people.site.session(email))
            assert (opened.status_code == 302) == bool(in_sources), who
            if opened.status_code != 302:
                assert client.post(f"{dagster.url}/graphql", json={"query": RUNS}).status_code == 401
                assert (
                    'href="/dagster'
                    not in dagster_people.http.get("/", headers=dagster_people.site.session(email)).text
                )
                continue
            client.get(opened.headers["location"])
            assert partitions_in_dagster(dagster, client) <= in_sources <= named, who


def hostile() -> dict[str, str]:
    return {
        "three megabytes of spaces": "{ version " + " " * 3_000_000 + "}",
        "three megabytes of fields": "{ " + "version " * 375_000 + "}",
        "100,000 aliases": "{ " + " ".join(f"a{number}: version" for number in range(100_000)) + " }",
        "many aliases in a small document": "{ " + " ".join(f"a{number}: version" for number in range(1_000)) + " }",
        "one field again and again": "{ " + "version " * 4_000 + "}",
        "deep": "{ a" * 5_000 + "}" * 5_000,
        "many fragments": "{ ...f0 } "
        + "".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }} " for n in range(60)),
        "fragments in a ring": "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }",
    }


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_a_document_that_asks_for_too_much_is_refused(dagster: Dagster, role: Role) -> None:
    for name, document in hostile().items():
        answer = dagster.ask(document, dagster.bearer(role))
        assert answer.status_code in (400, 413), name
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["type"] in ("/problems/invalid-request", "/problems/too-large"), name
        assert problem["status"] == answer.status_code
        assert problem["errors"] == [{"message": problem["detail"]}], "as Dagster's pages show it"
        if len(document) < 60_000:
            params = {"query": document}
            assert (
                httpx.get(f"{dagster.url}/graphql", params=params, headers=dagster.bearer(role)).status_code >= 400
            ), name
    assert dagster.ask("{ version }", dagster.bearer(role)).status_code == 200


def test_a_websocket_ends_with_a_document_that_asks_for_too_much(dagster: Dagster) -> None:
    address = f"{dagster.url.replace('http', 'ws')}/graphql"
    for name, document in hostile().items():
        with connect(address, additional_headers=dagster.bearer(), subprotocols=["graphql-ws"]) as opened:  # type: ignore[list-item]
            opened.send(json.dumps({"type": "start", "id": "1", "payload": {"query": document}}))
            with pytest.raises(ConnectionClosed):
                pytest.fail(f"{name} was answered: {opened.recv(60)!r}")


def test_the_webserver_answers_while_hostile_bodies_arrive(dagster: Dagster) -> None:
    """The probe is answered while all but a byte of what is allowed has arrived of each; one more, and each is refused."""
    address = urlsplit(dagster.url)
    body = json.dumps({"query": hostile()["three megabytes of fields"]}).encode()
    head = f"POST /graphql HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in dagster.bearer("viewer").items()) + "\r\n"
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", address.port or 0), 60)) for _ in range(5)
        ]
        for one in sockets:
            one.sendall(head.encode() + body[: MAX_BODY_BYTES - 1])
        assert httpx.get(f"{dagster.url}/livez", timeout=60).text == "alive"
        assert select.select(sockets, [], [], 0)[0] == [], "a hostile request was answered before the probe"
        for one in sockets:
            with suppress(OSError):  # it is answered and closed before all of it is sent
                one.sendall(body[MAX_BODY_BYTES - 1 :])
            assert one.recv(12) == b"HTTP/1.1 413"
