"""Bad input, end to end: each is refused with a message that says what to do, and nothing else is lost.

Files and uploads pass the real route, pipeline and stores. A table of input and message is printed at the end (`pytest -s`).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import numpy as np
import pytest
from pydantic import ValidationError
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from assets import pipeline
from resources import keys
from resources.core.bm25 import SparseVector
from resources.core.domain import Batch, Item, SourceName
from resources.core.errors import AbortSyncError, ConfigurationError
from resources.embedding import embedder
from resources.settings import FileRoot
from resources.sources.files import Files
from resources.stores import qdrant
from resources.syncs.syncing import open_sync
from tests.fixtures.desk import ADA, ZEBRAS, Desk
from tests.fixtures.installation import Installation
from tests.fixtures.openai_server import OpenAIServer, Rows
from tests.fixtures.serving import Site

EVE = "eve@acme.example"
MB = 1024 * 1024
SECRET = "The moonstone lies under the third step of the cellar stairs, says nobody but this file.\n"
GERMAN = (
    "Die Überstunden müssen spätestens bis März ausgeglichen werden, außer für Geschäftsführer in Köln und München.\n"
)
SUPPORTED = (
    "Supported: .md, .markdown, .mdx, .txt, .text, .log, .rst, .adoc, .html, .htm, .xhtml, .csv, .tsv, .json, .jsonl, .ndjson, .pdf,"
    " .docx, .pptx, .xlsx, .png, .jpg, .jpeg, .docm, .dotx, .dotm, .pptm, .ppsx, .ppsm, .potx, .potm, .xlsm, .xltx, .xltm, .xlsb,"
    " .xls, .odt, .ott, .ods, .ots, .odp, .otp, .ipynb, .ics, .vcf, .srt, .vtt, .tex, .org, .zip, .rtf, .epub, .eml, .msg, .xml,"
    " .yaml, .yml, source code, and text without an extension."
)
PROGRAM = b"MZ\x90\x00\x03" + b"\x00" * 9000
NOISE = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(200))
ENCRYPTED = "The PDF is encrypted. Save it without a password and it will be indexed."
OUTSIDE = "It is a link that leads out of the root, so it is not read."
LEADS_OUT = "Its path leads out of the root, so it is not read."


def encrypted_pdf() -> bytes:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    target = io.BytesIO()
    sheet = Canvas(target, encrypt=StandardEncryption("hush", strength=128))
    sheet.drawString(60, 780, SECRET)
    sheet.save()
    return target.getvalue()


def zip_bomb() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 30_000_000)
    return target.getvalue()


BOMB = zip_bomb()
EXPLODES = f"The DOCX file unpacks to {30_000_000 // len(BOMB)} times its size, as zip bombs do; it is not opened."


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, str]]:
    """What was said to whom, printed as a table at the end."""
    said: dict[str, str] = {}
    yield said
    width = max(map(len, said), default=0)
    rows = [f"{name.ljust(width)}   {message}" for name, message in [("bad input", "message"), *said.items()]]
    sys.stdout.write("\n\n" + "\n".join(rows) + "\n")


class Watched(Files):
    """The source `files`, which remembers what it was asked to read and reports items of our making beside its own."""

    def __init__(self, desk: Desk, *more: Item) -> None:
        super().__init__(desk.site.settings)
        self.more = list(more)
        self.read: list[str] = []

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        yield Batch(partition=partition, seen=self.more, listing="page")
        yield from super().changes(partition, cursor)

    def fetch(self, item: Item) -> Iterator[bytes]:
        self.read.append(item.source_id)
        return super().fetch(item)


def test_bad_files_in_a_root(desk: Desk, told: dict[str, str]) -> None:
    write, outside = desk.installation.write, desk.installation.root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (outside / "secret.json").write_text('{"permissions": ["public"]}')
    write("invoice.pdf", PROGRAM)
    write("locked.pdf", encrypted_pdf())
    write("bomb.docx", BOMB)
    write("empty.md", b"")
    write("noise.txt", NOISE)
    write("latin.txt", GERMAN.encode("latin-1"))
    write("wide.txt", "Giraffes sleep standing, for half an hour a day.\n".encode("utf-16"))
    with (desk.installation.root / "huge.csv").open("wb") as file:
        file.truncate(2 * 1024**3)
    (desk.installation.root / "out.txt").symlink_to(outside / "secret.txt")
    (desk.installation.root / "folder").symlink_to(outside)
    (desk.installation.root / "linked.md.meta.json").symlink_to(outside / "secret.json")
    write("linked.md", "A page whose sidecar is a link.\n")
    source = Watched(desk)
    run = desk.installation.sync(port=source)
    refused = {
        "docs/invoice.pdf": f"invoice.pdf does not match its extension: its content is a Windows program. {SUPPORTED}",
        "docs/locked.pdf": ENCRYPTED,
        "docs/bomb.docx": EXPLODES,
        "docs/empty.md": "It is empty.",
        "docs/noise.txt": f"noise.txt does not match its extension: its content is of another or unknown type. {SUPPORTED}",
        "docs/huge.csv": (
            "It is too large: 2,147,483,648 bytes, and CONCORDANCE_LIMITS__MAX_FILE_BYTES allows 209,715,200. Split it, or raise the"
            " limit and sync again."
        ),
        "docs/out.txt": OUTSIDE,
        "docs/folder": OUTSIDE,
        "docs/linked.md": "Its sidecar (.meta.json) cannot be read, so no one may see it: it is a link.",
    }
    good = dict.fromkeys(("docs/zebras.md", "docs/latin.txt", "docs/wide.txt"), ("live", None))
    assert desk.states() == good | {name: ("skipped", reason) for name, reason in refused.items()}
    faults = desk.installation.rows("SELECT source_id, reason FROM sync_errors WHERE job_id = %s", run.job_id)
    assert {fault["source_id"]: fault["reason"] for fault in faults} == refused
    told |= refused
    assert (run.counts.synced, run.counts.skipped, run.counts.failed, run.error) == (2, len(refused), 0, None)
    assert {"docs/huge.csv", "docs/out.txt", "docs/folder", "docs/empty.md"}.isdisjoint(source.read)
    assert desk.installation.agrees()
    assert desk.found("Bis wann müssen die Überstunden ausgeglichen werden?")[0] == "docs/latin.txt"
    assert desk.found("How do giraffes sleep?")[0] == "docs/wide.txt"
    assert desk.installation.rows("SELECT 1 FROM chunks WHERE chunk_text LIKE '%%moonstone%%'") == []
    # what was fetched before its content was judged stays, as the key to the verdict on it
    desk.assert_nothing_lost(live=3)
    again = desk.installation.sync()
    assert (again.counts.synced, again.counts.skipped, again.counts.embedded) == (0, 0, 0)


def item(name: str, **more: Any) -> Item:
    fields: dict[str, Any] = {"partition": "docs", "locator": name, "permissions": ("domain:acme.example",), **more}
    return Item(source_id=f"docs/{name}", title="x", path=name, mime_type="text/plain", version="1", **fields)


def test_paths_that_escape_the_root(desk: Desk, told: dict[str, str]) -> None:
    (desk.installation.root.parent / "secret.txt").write_text(SECRET)
    write = desk.installation.write
    write("plain.md", "Plain words of a plain page.\n")
    (desk.installation.root / "plain.md.meta.json").write_text(
        '{"path": "../secret.txt", "locator": "../secret.txt", "source_id": "docs/../secret.txt", "title": "../../x"}'
    )
    source = Watched(
        desk,
        item("../secret.txt"),
        item("a/../../secret.txt"),
        item(str(desk.installation.root.parent / "secret.txt")),
        item("twin.md", locator="../secret.txt"),
        item("elsewhere.md", partition="../docs"),
    )
    desk.installation.sync(port=source)
    states = desk.states()
    gone = "Its root '../docs' is no longer in CONCORDANCE_FILE_ROOTS."
    assert states.pop("docs/elsewhere.md") == ("skipped", gone)
    assert states.pop("docs/zebras.md") == states.pop("docs/plain.md") == ("live", None)
    assert set(states.values()) == {("skipped", LEADS_OUT)}
    assert len(states) == 4
    told |= {"locator ../secret.txt": LEADS_OUT, "partition ../docs of an item": gone}
    assert desk.installation.rows("SELECT 1 FROM chunks WHERE chunk_text LIKE '%%moonstone%%'") == []
    assert hashlib.sha256(SECRET.encode()).hexdigest() not in desk.stored()
    desk.assert_nothing_lost(live=2)

    unknown = "The source files has no partition '../..'. It has: docs."
    with (
        pytest.raises(AbortSyncError) as caught,
        open_sync(desk.site.settings, SourceName.FILES, partitions=["../.."], requested_by="test") as run,
    ):
        pipeline.sync(run)
    assert str(caught.value) == told.setdefault("partition ../.. asked for", unknown)
    (job,) = desk.installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job == {"status": "failed", "error_message": unknown}
    url = f"{desk.installation.root.as_uri()}/../outside"
    root = desk.site.settings.file_roots[0].model_copy(update={"url": url})
    says = f"{url!r} is not an absolute path on this machine; write file:///srv/handbook, without '..'"
    with pytest.raises(ValidationError, match=re.escape(says)):
        FileRoot(**root.model_dump())
    told["root with .."] = says.replace(str(desk.installation.root.parent), "/srv")
    desk.assert_nothing_lost(live=2)


def body(name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield f'--B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    yield from pieces
    yield b"\r\n--B--\r\n"


def sixty_megabytes() -> Iterator[bytes]:
    return body("big.txt", (b"words " * (MB // 6) + b"    " for _ in range(60)))


def test_uploads_that_are_refused_at_once(desk: Desk, told: dict[str, str]) -> None:
    before = desk.stored()
    form = {"Content-Type": "multipart/form-data; boundary=B"}
    too_large = "The file is larger than the limit of 50 MB. Split it or compress its images."
    length = {"Content-Length": str(sum(map(len, sixty_megabytes())))}
    mismatch = "does not match its extension: its content is"
    sent: dict[str, tuple[dict[str, Any], int, str, str]] = {
        "upload of 60 MB, announced": ({"content": sixty_megabytes(), "headers": form | length}, 413, "too-large", too_large),
        "upload of 60 MB, chunked": ({"content": sixty_megabytes(), "headers": form}, 413, "too-large", too_large),
        "upload of an .exe named .pdf": (
            {"files": {"file": ("setup.pdf", PROGRAM)}}, 415, "unsupported-type",
            f"setup.pdf {mismatch} a Windows program. {SUPPORTED}",
        ),
        "upload of binary rubbish named .txt": (
            {"files": {"file": ("noise.txt", NOISE)}}, 415, "unsupported-type",
            f"noise.txt {mismatch} of another or unknown type. {SUPPORTED}",
        ),
        "upload of an empty file": ({"files": {"file": ("a.txt", b"")}}, 400, "invalid-request", "a.txt is empty."),
    }  # fmt: skip
    for name, (request, status, slug, says) in sent.items():
        response = desk.running.request("POST", "/api/upload", EVE, **request)
        problem = response.json()
        assert (response.status_code, problem["type"], problem["detail"]) == (status, f"/problems/{slug}", says), name
        told[name] = says
        assert desk.stored() == before, name
    assert desk.installation.rows("SELECT 1 FROM uploads") == []
    assert desk.site.launcher.calls == []
    desk.assert_nothing_lost()


def test_uploads_that_parsing_refuses(desk: Desk, told: dict[str, str]) -> None:
    files = {
        "locked.pdf": (encrypted_pdf(), ENCRYPTED),
        "bomb.docx": (BOMB, EXPLODES),
        "latin.txt": (GERMAN.encode("latin-1"), None),
        "wide.txt": ("Giraffes sleep standing, for half an hour a day.\n".encode("utf-16"), None),
    }
    reasons: dict[str, str] = {}
    for name, (content, reason) in files.items():
        assert desk.running.request("POST", "/api/upload", EVE, files={"file": (name, content)}).status_code == 202
        if reason:
            reasons[f"{EVE}:{hashlib.sha256(content).hexdigest()}"] = reason
    run = desk.installation.sync(SourceName.UPLOAD)
    assert (run.counts.synced, run.counts.skipped, run.counts.failed, run.error) == (2, 2, 0, None)
    skipped = {name: reason for name, (state, reason) in desk.states(SourceName.UPLOAD).items() if state == "skipped"}
    assert skipped == reasons
    told |= {f"upload of {name}": reason for name, (_, reason) in files.items() if reason}
    status = desk.running.request("GET", f"/api/sync/status/{run.job_id}", EVE).json()
    assert {fault["file_id"]: fault["error"] for fault in status["errors"]} == reasons
    assert desk.running.request("GET", f"/api/sync/status/{run.job_id}", ADA).json()["errors"] == []
    assert desk.installation.agrees()
    assert len(desk.found("Überstunden ausgeglichen Giraffes sleep", EVE)) >= 2
    desk.assert_nothing_lost(live=3)


def test_bad_queries_and_tokens(desk: Desk, told: dict[str, str]) -> None:
    long = desk.running.request("POST", "/api/rag/search", ADA, json={"query": "q" * 2000})
    too_long = "query: has 2000 characters; the limit is 1000."
    assert (long.status_code, long.json()["detail"]) == (400, told.setdefault("query of 2,000 characters", too_long))
    now = datetime.now(UTC)
    claims = {"iss": "concordance", "aud": "concordance", "sub": ADA, "iat": now, "exp": now + timedelta(hours=1)}
    tokens = {
        "a token that expired": (
            desk.site.token(ADA, expires=timedelta(hours=-1)),
            "This token has expired. Ask for a new one: concordance token EMAIL",
        ),
        "a token signed by another key": (
            jwt.encode(claims, "another key of more than thirty-two characters", algorithm="HS256"),
            "This token was signed by another key. Ask this installation for one: concordance token EMAIL",
        ),
    }
    for name, (token, says) in tokens.items():
        headers = {"Authorization": f"Bearer {token}"}
        for method, path in (("POST", "/api/rag/search"), ("POST", "/api/upload"), ("GET", "/api/documents/x")):
            response = desk.running.http.request(method, path, headers=headers)
            assert (response.status_code, response.json()["detail"]) == (401, says)
        told[name] = says
    desk.running.settle()
    assert desk.installation.rows("SELECT 1 FROM audit_log WHERE query LIKE 'qq%%'") == []
    desk.assert_nothing_lost()


def test_a_vector_of_the_wrong_dimension_refuses_its_whole_batch(desk: Desk, told: dict[str, str]) -> None:
    client, name = desk.site.qdrant, desk.site.collection
    before = desk.installation.points()
    says = "Wrong input: Vector dimension error: expected dim: 384, got 3"
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
    points = [
        models.PointStruct(id=point, vector={qdrant.DENSE: [0.1] * length}, payload={"doc_id": "x"})
        for point, length in zip(ids, (384, 384, 3), strict=True)
    ]
    for write in (
        lambda: client.upsert(name, points, wait=True),
        lambda: client.query_points(name, query=[0.1] * 3, using=qdrant.DENSE),
    ):
        with pytest.raises(UnexpectedResponse) as caught:
            write()
        assert caught.value.status_code == 400
        assert caught.value.structured()["status"]["error"] == says
    dense = [[0.1] * length for length in (384, 384, 3)]
    with pytest.raises(AbortSyncError) as aborted:
        qdrant.upsert(client, name, list(ids), dense, [SparseVector([1], [1.0])] * 3, [{"doc_id": "x"}] * 3)
    assert str(aborted.value) == f"Qdrant rejected the request to write points: {says}"
    told |= {"vector of 3 numbers to the vector server": says, "the same while indexing": str(aborted.value)}
    assert client.retrieve(name, ids) == []
    assert desk.installation.points() == before
    desk.assert_nothing_lost()


def shortened(rows: Rows) -> Rows:
    packed = base64.b64encode(np.ones(10, dtype="<f4").tobytes()).decode()
    return [{**row, "embedding": packed} for row in rows]


def test_an_embedding_service_that_answers_the_wrong_dimension(
    installation: Installation, told: dict[str, str]
) -> None:
    with OpenAIServer(dimensions=64) as service:
        provider = {
            "embedding_provider": "openai",
            "embedding_model": "wordbag",
            "embedding_dimensions": 64,
            "openai_base_url": service.url,
        }
        installation.settings = installation.settings.model_copy(update=provider)
        installation.write("zebras.md", ZEBRAS)
        installation.sync()
        before = installation.points()
        assert [point["source_id"] for point in before] == ["docs/zebras.md"]
        installation.write("giraffes.md", "Giraffes sleep standing, for half an hour a day.\n")
        service.twist(shortened)
        says = (
            f"The embedding service at {service.url} (model wordbag) returned a vector of 10 numbers where 64 were expected;"
            " check CONCORDANCE_EMBEDDING_MODEL and CONCORDANCE_EMBEDDING_DIMENSIONS."
        )
        with pytest.raises(ConfigurationError) as caught:
            installation.sync()
        assert str(caught.value) == says
        told["embedding service with 10 numbers for 64"] = says.replace(service.url, "URL")
        (job,) = installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
        assert job == {"status": "failed", "error_message": says}
        assert installation.points() == before
        assert len(installation.rows("SELECT 1 FROM chunks")) == len(before)
        service.twist(lambda rows: rows)
        run = installation.sync()
        assert (run.counts.synced, run.counts.embedded, run.error) == (1, 1, None)
        assert installation.agrees()
        assert {point["source_id"] for point in installation.points()} == {"docs/zebras.md", "docs/giraffes.md"}


def test_another_model_under_the_same_name(installation: Installation, told: dict[str, str]) -> None:
    with OpenAIServer(dimensions=64) as service, OpenAIServer(dimensions=32) as other:
        provider = {"embedding_provider": "openai", "embedding_model": "wordbag", "openai_base_url": service.url}
        installation.settings = installation.settings.model_copy(update=provider)
        installation.write("zebras.md", ZEBRAS)
        installation.sync()
        before = installation.points()
        installation.settings = installation.settings.model_copy(update={"openai_base_url": other.url})
        installation.write("giraffes.md", "Giraffes sleep standing, for half an hour a day.\n")
        says = "The embedding model wordbag now returns vectors of 32 numbers, but the index has 64"
        with pytest.raises(ConfigurationError, match=says) as caught:
            installation.sync()
        told["embedding service with another model"] = str(caught.value)
        assert installation.points() == before
        keys.ensure(installation.settings)
        site = Site(installation.settings, embedder(installation.settings))
        with site.running() as running:
            answer = running.search("zebras", "ada@acme.example")
            assert [one["title"] for one in answer["results"]] == ["Zebra care"]
            assert [one["code"] for one in answer["warnings"]] == ["embedding_unavailable"]
            assert says in running.ready().json()["services"]["embedding"]["detail"]


@pytest.mark.parametrize("odd", ["\0", "\ud83d"])
def test_a_title_in_a_file_with_a_character_that_cannot_be_stored_costs_that_character(
    installation: Installation, odd: str
) -> None:
    installation.write("plan.json", json.dumps({"title": f"The {odd}plan", "text": "The plan of the otters."}))
    letter = "Subject: =?utf-8?q?The_=00letter?=\r\nFrom: =?utf-8?q?A=00da?= <ada@acme.com>\r\n\r\nDear otters."
    installation.write("letter.eml", letter)
    installation.write("note.md", "The plan of the herons.")
    assert installation.sync().error is None
    rows = installation.rows("SELECT title, state FROM documents ORDER BY source_id")
    assert rows == [{"title": title, "state": "live"} for title in ("The letter", "note.md", "The plan")]
    assert installation.agrees()
