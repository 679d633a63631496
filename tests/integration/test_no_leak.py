"""No route tells a caller of what the caller may not read: any body the OpenAPI document allows, any engine down, cached or not.

Bodies come from Schemathesis, with words, ids and links of forbidden documents planted in them. Forbidden documents say words that stand
nowhere else; no answer may hold one of them, nor a forbidden id that its request did not name. Names are planted too: of folders
around readable documents, of channels, senders and files, and of the people and groups that a document is shared with.
"""

from __future__ import annotations

import copy
import json
import os
import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import hypothesis
import pytest
from hypothesis import strategies as st
from pydantic import SecretStr

from resources.core.domain import Role, SourceName
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from serving.identity.visitor import PAGE_ERRORS
from serving.search.understanding import named as naming
from tests.fixtures.feedback import rated
from tests.fixtures.openapi import SETTINGS, operations
from tests.fixtures.routes import declared_handlers
from tests.fixtures.serving import Running, Site

ANN, BOB, CREW = "ann@acme.com", "bob@acme.com", "crew@acme.com"
HOLDERS = {Role.AUDITOR: "audrey@acme.com", Role.CURATOR: "cora@acme.com"}
SHOWN = {Role.AUDITOR: ("qzchannel1canary", "qzerror1canary", "qzpause1canary"), Role.CURATOR: ()}
"""Canaries that a role sees: auditors see names of channels, and why syncs fail or wait."""
EXAMPLES = int(os.environ.get("CONCORDANCE_TEST_EXAMPLES", "8"))
"""Bodies a route and state; `test_many_bodies` takes ten times as many."""
TOPICS = ("ferry budget of the northern pier", "salary bands", "launch of the heron", "password of the harbour gate")


class BrokenModel:
    """An embedder whose service is down."""

    model = "broken"

    def embed_query(self, _text: str) -> Any:
        raise ServiceUnavailableError("The embedding service does not answer.")

    def embed(self, _texts: Sequence[str]) -> Any:
        raise ServiceUnavailableError("The embedding service does not answer.")


class Secrets:
    """What was hidden from Ann, and the bait that leads to it."""

    def __init__(self) -> None:
        self.canaries: list[str] = []
        self.ids: list[str] = []
        self.open_ids: list[str] = []
        self.feedback = ""
        self.bait: list[str] = [*TOPICS, *(word for topic in TOPICS for word in topic.split())]

    def hide(self, site: Site, number: int, permissions: list[str], **more: Any) -> str:
        """Add a document about every topic that Ann may not read; every field of it holds a word of its own."""
        canary = f"qzx{number}canary"
        source = more.pop("source", SourceName.GOOGLE_DRIVE)
        source_id = f"hidden-{number}"
        url = f"https://docs.example/hidden-{number}"
        doc_id = site.add(
            f"Title {canary}",
            [f"The {topic}: {canary}, section {place}." for place, topic in enumerate(TOPICS)],
            permissions,
            source=source,
            source_id=source_id,
            path=f"folder {canary}/plan.md",
            url=url,
            owner=f"{canary}@acme.com",
            author=f"{canary}@acme.com",
            places=[{"section_path": [f"Part {canary}"], "anchor": canary}] * len(TOPICS),
            **{"tags": {"dataset": "legal", "code": canary, "channel": canary}} | more,
        )
        self.canaries.append(canary)
        self.ids.append(doc_id)
        self.bait += [doc_id, source_id, url, f"/view/{doc_id}?chunk=0"]
        return doc_id

    def surround(self, site: Site) -> list[str]:
        """Add documents that Ann may read in folders that she may not know, and names around them; returns their ids."""
        where = "qzfolder1canary"
        folder = {"id": "folder-1", "name": f"Layoffs {where}", "readers": [BOB]}
        shown = {"id": "folder-0", "name": "Shared", "readers": [ANN]}
        made = [
            site.add(
                "Letter in a folder",
                [f"A letter on the {topic}." for topic in TOPICS],
                [ANN],
                source=SourceName.GOOGLE_DRIVE,
                source_id="letter-1",
                path=f"Shared/Layoffs {where}/letter.md",
                collection_ids=["folder-1", "folder-0"],
                folders=[shown, folder],
                url="https://docs.example/letter-1",
            ),
            site.add(
                "Letter in a file root",
                [f"A paper letter on the {topic}." for topic in TOPICS],
                [ANN],
                source_id=f"root/{where}/letter.md",
                path=f"{where}/letter.md",
                collection_ids=["root", f"root/{where}"],
                folders=[{"id": "root", "name": "", "readers": [BOB]}, {**folder, "id": f"root/{where}"}],
                url=f"https://files.example/{where}/letter.md",
            ),
        ]
        site.sql("UPDATE partitions SET title = '#qzchannel1canary'")
        job = "INSERT INTO sync_jobs (source, status, requested_by) VALUES ('slack', 'failed', 'qzsender1canary@acme.com')"
        ((job_id,),) = site.sql(f"{job} RETURNING job_id")
        error = "INSERT INTO sync_errors (job_id, source_id, stage, reason) VALUES (%s, %s, 'raw', %s)"
        site.sql(error, job_id, "qzfile1canary.md", "#qzchannel1canary is closed to qzsender1canary@acme.com")
        person, group, file = "qzperson1canary@acme.com", "group:qzgroup1canary@acme.com", "qzfile2canary"
        site.sql(
            "UPDATE documents SET permissions = permissions || %s WHERE permissions <> '{public}'", [person, group]
        )
        site.sql("INSERT INTO directory (source, email, principal) VALUES ('slack', %s, %s)", person, group)
        for source, partition in (("upload", "2026-11-20"), ("push", "qzwiki1canary")):
            theirs = str(uuid.uuid4())
            site.sql(
                "INSERT INTO uploads (source, source_id, doc_id, owner, partition, content_hash, file_name, title, mime_type, size,"
                " permissions, change) VALUES (%s, %s, %s, %s, %s, 'none', %s, %s, 'text/plain', 1, %s, 1)",
                source, f"{person}/{file}", theirs, person, partition, f"{file}.txt", file, [person, group],
            )  # fmt: skip
            self.bait.append(theirs)
        names = (
            "qzchannel1canary",
            "qzwiki1canary",
            "qzsender1canary",
            "qzfile1canary",
            "qzperson1canary",
            "qzgroup1canary",
            file,
        )
        self.canaries += [where, *names]
        self.bait += [*made, "folder-1", "folder-0", "letter-1", str(job_id)]
        self.open_ids += made
        return made

    def fail(self, site: Site) -> str:
        """Have syncs fail and skip documents, with their names in the reasons, and have an answer rated; returns the failed sync's id."""
        error, pause, warning, reason, gone = (
            f"qz{kind}1canary" for kind in ("error", "pause", "warning", "reason", "gone")
        )
        ((job_id,),) = site.sql(
            "UPDATE sync_jobs SET completed_at = now(), failed = 1, skipped = 1, error_message = %s RETURNING job_id::text",
            f"{error}: Slack cannot be read.",
        )
        for outcome, name, said in (("warning", "", warning), ("skipped", "C1/1", reason), ("failed", "C1/2", reason)):
            site.sql(
                "INSERT INTO sync_errors (job_id, source_id, stage, reason, outcome) VALUES (%s, %s, 'parsed', %s, %s)",
                job_id, name, f"{said}.docx is encrypted", outcome,
            )  # fmt: skip
        for state in ("skipped", "failed", "lost_access", "live"):
            site.sql(
                "INSERT INTO documents (doc_id, source, source_id, partition, source_title, path, state, reason, permissions)"
                " VALUES (gen_random_uuid(), 'slack', %s, 'root', %s, %s, %s, %s, %s)",
                f"{gone}/{state}", gone, f"{gone}.docx", state, f"{reason}.docx is encrypted", [BOB],
            )  # fmt: skip
        site.sql(
            "INSERT INTO held_deletions (source, partition, source_id) VALUES ('slack', 'root', %s)", f"{gone}/live"
        )
        site.sql("INSERT INTO source_states (source, paused_at, paused_reason) VALUES ('slack', now(), %s)", pause)
        site.sql(
            "INSERT INTO deletion_receipts (doc_id, source, source_id, tombstone_at)"
            " SELECT doc_id, source, source_id, now() FROM documents WHERE state = 'lost_access'"
        )
        question = "INSERT INTO questions (question, doc_ids, email, state, origin, added_by) VALUES (%s, %s, %s, %s, 'feedback', %s)"
        for state in ("proposed", "accepted"):
            site.sql(question, f"What is {state}?", [uuid.UUID(one) for one in self.ids], BOB, state, BOB)
        self.feedback = rated(site, BOB, "What was that?")
        self.canaries += [error, pause, warning, reason, gone, "sandpiper"]
        self.bait += [job_id, self.feedback]
        return job_id

    def but(self, *shown: str, ids: bool = True) -> Secrets:
        """Return what is hidden from someone who sees these canaries, and without `ids` the IDs of documents."""
        others = copy.copy(self)
        others.canaries = [one for one in self.canaries if one not in shown]
        others.ids = self.ids if ids else []
        return others

    def check(self, sent: str, status: int, answer: str) -> None:
        """Fail when an answer tells what is hidden."""
        assert status < 500 or status == 503, f"{status} for {sent}: {answer[:500]}"
        told = [canary for canary in self.canaries if canary in answer.casefold()]
        assert not told, f"{told} told for {sent}: {answer[:2000]}"
        named = [doc_id for doc_id in self.ids if doc_id in answer and doc_id not in sent]
        assert not named, f"{named} named for {sent}: {answer[:2000]}"


@pytest.fixture
def secrets(site: Site) -> Secrets:
    """An installation in which Ann may read a little, and much is hidden from her, each for another reason."""
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    hidden = Secrets()
    for number, topic in enumerate(TOPICS):
        hidden.open_ids.append(site.add(f"Open {number}", [f"All know of the {topic}.", topic], ["public"]))
    site.add("Mine", ["Ann's own notes on the ferry budget."], [ANN])
    site.add("Ours", ["The crew's notes on the salary bands."], [f"group:{CREW}"])
    hidden.hide(site, 1, [BOB])
    hidden.hide(site, 2, ["group:board@acme.com"], source=SourceName.SLACK)
    hidden.hide(site, 3, [])
    hidden.hide(site, 4, ["public"], acl_checked_at=datetime.now(UTC) - timedelta(days=9), partition="stale")
    hidden.bait += hidden.open_ids
    hidden.surround(site)
    return hidden


@pytest.fixture
def changed(site: Site, secrets: Secrets) -> Callable[[], None]:
    """Return what takes Ann's rights away in the registry alone: the index and her cached searches still say yes."""
    revoked = secrets.hide(site, 5, [ANN])
    deleted = secrets.hide(site, 6, [ANN])

    def change() -> None:
        site.sql("UPDATE documents SET permissions = '{bob@acme.com}' WHERE doc_id = %s", uuid.UUID(revoked))
        site.sql("UPDATE documents SET state = 'deleted' WHERE doc_id = %s", uuid.UUID(deleted))

    return change


def fuzz(running: Running, secrets: Secrets, token: str | None, examples: int = EXAMPLES) -> dict[str, set[int]]:
    """Send bodies to every operation and check the answers; returns the statuses seen by operation."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {one.label: attacked(running, secrets, one, headers, examples) for one in operations(running, secrets.bait)}


def attacked(running: Running, secrets: Secrets, operation: Any, headers: dict[str, str], examples: int) -> set[int]:
    """Send bodies to one operation and check the answers; returns the statuses seen."""
    statuses: set[int] = set()
    bait = st.sampled_from(secrets.ids + secrets.open_ids)

    @hypothesis.settings(SETTINGS, max_examples=examples)
    @hypothesis.given(st.data())
    def attack(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if case.path_parameters and data.draw(st.booleans()):
            case.path_parameters = {name: data.draw(bait) for name in case.path_parameters}
        answer = case.call(base_url=running.url, headers=headers)
        sent = json.dumps([operation.label, case.path_parameters, case.query, repr(case.body)], default=repr)
        statuses.add(answer.status_code)
        secrets.check(sent, answer.status_code, f"{answer.headers} {answer.text}")

    attack()
    return statuses


def searched(running: Running, secrets: Secrets, who: str, *groups: str) -> None:
    """Search every topic in every mode, fusion and form, and check the answers."""
    for topic in TOPICS:
        for mode in ("hybrid", "vector", "keyword"):
            for fusion in ("weighted", "rrf", "dbsf", "minmax") if mode == "hybrid" else (None,):
                body = {
                    "query": topic, "mode": mode, "fusion": fusion, "top_k": 50, "neighbours": 3, "explain": True,
                    "group_by_document": False, "names": True,
                }  # fmt: skip
                for _ in range(2):  # the second may come from the cache
                    answer = running.request("POST", "/api/rag/search", who, *groups, json=body)
                    assert answer.status_code == 200, answer.text
                    secrets.check(json.dumps(body), answer.status_code, answer.text)
                    assert answer.json()["results"], f"nothing at all was found for {body}"


SENDERS: Sequence[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "same-origin", "X-Part": "1"},
]
"""What browsers say of who sends a request: nothing, an address bar, pages of other sites, and a script of ours."""


def page_paths() -> list[str]:
    """Return the path of every page."""
    return [path for path, handler in declared_handlers().values() if handler.exception_handlers is PAGE_ERRORS]


def browsed(running: Running, secrets: Secrets, recorded: Secrets, who: str, names: Sequence[str]) -> str:
    """Open every page, for every document and name, and addresses that are not there, and check what is shown; returns it.

    In the audit log, it is checked against `recorded`.
    """
    signed_in = running.site.session(who) | {"Accept": "text/html,*/*;q=0.8"}
    addresses = {
        "".join(part if "{" not in part else name for part in re.split(r"(\{\w+:str\})", path))
        for path in page_paths()
        for name in ([*secrets.ids, secrets.open_ids[0], *names] if "{" in path else [""])
    }
    searches = {f"{path}?{urlencode({'q': topic})}" for path in ("/", "/results") for topic in TOPICS}
    wrong = {f"{path}/{doc_id}" for path in ("/document", "/api/documents", "/view", "") for doc_id in secrets.ids}
    shown = ""
    for path in sorted(addresses | searches | wrong):
        for sender in SENDERS:
            answer = running.http.get(path, headers=signed_in | sender)
            assert answer.status_code < 500, f"{path} {sender}: {answer.text}"
            judge = recorded if path == "/admin" else secrets
            judge.check(f"{path} {sender}", answer.status_code, f"{answer.headers} {answer.text}")
            shown += answer.text
    return shown


ROOTS = ("root/", "files:root/", "https://files.example/")
"""What a path of the file root is written after, by those who name a document by it."""
SEARCHES = ("POST /api/rag/search", "POST /api/search", "POST /api/rag.search", "POST /ask", "GET /api/why")


def served(seen: dict[str, set[int]], must: Sequence[str] = SEARCHES) -> None:
    """Fail when the bodies never got past validation: then nothing was tried."""
    missed = [label for label in must if 200 not in seen[label]]
    assert not missed, f"no body was accepted by {missed}: {seen}"


def test_any_body_as_a_colleague_and_as_nobody(site: Site, secrets: Secrets) -> None:
    with site.running() as running:
        served(fuzz(running, secrets, site.token(ANN, CREW)))
        anonymous = fuzz(running, secrets, None, examples=2)
        assert all(401 in statuses for label, statuses in anonymous.items() if "/api/rag/" in label)


def test_no_route_names_the_folders_around_a_readable_document(site: Site, secrets: Secrets) -> None:
    with site.running() as running:
        for mode in ("hybrid", "vector", "keyword"):
            for word in ("letter", "layoffs", "qzfolder", "folder-1", "channel"):
                body = {
                    "query": f"{word} on the {TOPICS[0]}",
                    "mode": mode,
                    "top_k": 50,
                    "explain": True,
                    "neighbours": 1,
                }
                answer = running.request("POST", "/api/rag/search", ANN, json=body)
                secrets.check(str(body), answer.status_code, f"{answer.headers} {answer.text}")
                letters = {one["title"]: one for one in answer.json()["results"] if one["title"].startswith("Letter")}
                assert letters["Letter in a folder"]["path"] == "Shared/letter.md"
                in_root = letters["Letter in a file root"]
                assert (in_root["path"], in_root["source_id"]) == ("letter.md", in_root["doc_id"])
        for doc_id in secrets.open_ids:
            for path in (f"/api/documents/{doc_id}", f"/documents/{doc_id}", f"/api/why?source={doc_id}"):
                answer = running.request("GET", path, ANN)
                secrets.check(path, answer.status_code, f"{answer.headers} {answer.text}")
        body = {"doc_ids": secrets.open_ids, "format": "footnote"}
        answer = running.request("POST", "/api/citations/format", ANN, json=body)
        secrets.check("citations", answer.status_code, answer.text)
        for hidden in ("folder-1", "root", "root/qzfolder1canary"):
            asked = {"query": "letter", "filters": {"collection_ids": [hidden]}, "top_k": 50}
            found = running.request("POST", "/api/rag/search", ANN, json=asked).json()["results"]
            assert not [one for one in found if one["title"].startswith("Letter")], hidden
        assert running.titles("letter", ANN, filters={"collection_ids": ["folder-0"]}) == ["Letter in a folder"]


BEGINNINGS = (
    "qzx",
    "qzx1",
    "qzx2cnary",
    "#qzx2",
    "qzxx3canary",
    "part qzx4canar",
    "qzf",
    "qzfolder1cnary",
    "lay",
    "layofs",
    "qzch",
    "qzp",
)
"""Of names in hidden documents and of hidden folders, and some with an error."""


def named(running: Running, secrets: Secrets, text: str) -> list[str]:
    """Search for what a name begins with, here and on the page, and check the answers; returns the names."""
    body = {"query": text, "names": True, "top_k": 50}
    answer = running.request("POST", "/api/rag/search", ANN, CREW, json=body)
    secrets.check(text, answer.status_code, answer.text)
    page = running.request("GET", "/results", ANN, CREW, params={"q": text})
    secrets.check(text, page.status_code, page.text)
    return [one["name"] for one in answer.json()["names"]]


def test_no_route_completes_or_corrects_a_hidden_name(
    site: Site, secrets: Secrets, changed: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "WAIT_SECONDS", 30.0)
    with site.running() as running:
        shown = Secrets()  # nothing is hidden before the change
        assert named(running, shown, "qzx5") == ["qzx5canary@acme.com"]
        assert named(running, secrets.but("qzx5canary", "qzx6canary", ids=False), "shar") == ["Shared"]
        changed()
        for text in (*BEGINNINGS, "qzx5", "qzx6canar"):
            assert named(running, secrets, text) == []


def test_no_route_confirms_a_guess_of_a_path(site: Site, secrets: Secrets) -> None:
    letter = secrets.open_ids[-1]
    right, wrong = "qzfolder1canary/letter.md", "qzfolder2canary/letter.md"
    with site.running() as running:

        def answers(path: str) -> list[Any]:
            asked: list[tuple[str, str, dict[str, Any]]] = [
                *(("GET", "/api/why", {"params": {"source": f"{before}{path}"}}) for before in ROOTS),
                ("POST", "/ask-local", {"json": {"query": "What is it?", "context": "A letter.", "source_file": path}}),
                ("POST", "/ask-local", {"json": {"query": "What?", "context": "A.", "source_file": f"root/{path}"}}),
                ("POST", "/api/search", {"json": {"query": "A letter?", "file_id": f"root/{path}"}}),
            ]
            told = [running.request(method, route, ANN, **more) for method, route, more in asked]
            return [(one.status_code, one.json() | {"instance": "", "request_id": ""}) for one in told]

        assert answers(right) == answers(wrong)
        # whoever may know the folders goes on by the path, and everyone who may read it by its id
        site.sql("UPDATE documents SET permissions = %s WHERE doc_id = %s", [ANN, BOB], uuid.UUID(letter))
        for who, source, found in ((BOB, f"root/{right}", True), (ANN, f"root/{right}", False), (ANN, letter, True)):
            told = running.request("GET", "/api/why", who, params={"source": source}).json()
            assert told["found"] is found, (who, source)


def test_rights_taken_away_between_a_search_and_the_next(
    site: Site, secrets: Secrets, changed: Callable[[], None]
) -> None:
    with site.running() as running:
        before = running.search(TOPICS[0], ANN, CREW, top_k=50)
        assert {"Title qzx5canary", "Title qzx6canary"} <= {one["title"] for one in before["results"]}
        changed()
        searched(running, secrets, ANN, CREW)
        served(fuzz(running, secrets, site.token(ANN, CREW)))


def test_without_the_model(site: Site, secrets: Secrets, changed: Callable[[], None]) -> None:
    changed()
    site.embedder = BrokenModel()
    with site.running() as running:
        searched(running, secrets, ANN, CREW)
        fuzz(running, secrets, site.token(ANN, CREW))


def test_without_the_index(site: Site, secrets: Secrets, changed: Callable[[], None]) -> None:
    changed()
    site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with site.running() as running:
        searched(running, secrets, ANN, CREW)
        fuzz(running, secrets, site.token(ANN, CREW))


def test_without_the_registry(site: Site, secrets: Secrets) -> None:
    nowhere = type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")
    site.settings = site.settings.model_copy(update={"postgres_url": nowhere})
    with site.running() as running:
        searched(running, secrets, ANN, CREW)
        fuzz(running, secrets, site.token(ANN, CREW), examples=2)


@pytest.mark.parametrize("role", HOLDERS)
def test_no_route_and_no_page_tells_auditors_and_curators_of_documents(
    site: Site, secrets: Secrets, role: Role
) -> None:
    """Auditors see why syncs fail and curators what was asked, but no name, text or reason of a document."""
    job, who = secrets.fail(site), HOLDERS[role]
    roles = Settings(_env_file=None, roles=json.dumps({role.value: [who]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles, "slack_bot_token": SecretStr("xoxb-test")})
    hidden = secrets.but(*SHOWN[role])
    recorded = secrets.but(*SHOWN[role], ids=False)  # the audit log holds them
    headers = {"Authorization": f"Bearer {site.token(who)}"}
    with site.running() as running:
        told = ""
        for path in (f"/api/sync/status/{job}", "/api/sources", "/api/held-deletions", "/api/questions", "/api/audit"):
            answer = running.request("GET", path, who)
            hidden.check(path, answer.status_code, answer.text)
            told += answer.text
        told += browsed(running, hidden, recorded, who, [secrets.feedback, "slack", job])
        for operation in operations(running, secrets.bait):
            shown = recorded if operation.label == "GET /api/audit" else hidden
            attacked(running, shown, operation, headers, EXAMPLES // 4)
    seen = {Role.AUDITOR: SHOWN[role], Role.CURATOR: ("What is proposed?", "What is accepted?", "What was that?")}[role]
    assert [one for one in seen if one not in told] == [], "the pages were not opened"


def test_no_page_tells_a_reader_of_what_is_hidden(site: Site, secrets: Secrets) -> None:
    job = secrets.fail(site)
    with site.running() as running:
        for path in (f"/api/sync/status/{job}", "/api/sources"):
            answer = running.request("GET", path, ANN)
            secrets.check(path, answer.status_code, answer.text)
        told = browsed(running, secrets, secrets, ANN, [secrets.feedback, "slack", job])
    assert "All know of the ferry budget" in told, "the pages were not opened"


@pytest.mark.slow
def test_many_bodies(site: Site, secrets: Secrets, changed: Callable[[], None]) -> None:
    changed()
    with site.running() as running:
        seen = fuzz(running, secrets, site.token(ANN, CREW), examples=EXAMPLES * 10)
        served(seen, [*SEARCHES, "POST /api/ask", "POST /api/chat", "GET /api/documents/{doc_id}"])
