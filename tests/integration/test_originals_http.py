"""`GET /api/documents/{doc_id}/original`: the stored file, for those who may read the document."""

from __future__ import annotations

import httpx
import pytest

from resources.core.domain import SourceName
from resources.stores.blobs import Blobs
from serving.answers import access_check
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ABSENT = "00000000-0000-4000-8000-00000000dead"


def stored(site: Site, title: str, content: bytes, readers: list[str], **fields: object) -> str:
    """Add a document whose bytes are in the blob store."""
    doc_id = site.add(title, ["The text of the file."], readers, **fields)  # type: ignore[arg-type]
    blob = Blobs(site.settings.lake_address).put([content])
    site.sql("UPDATE documents SET content_hash = %s WHERE doc_id = %s", blob.content_hash, doc_id)
    return doc_id


def test_a_reader_gets_the_bytes_as_a_file_to_save(site: Site, running: Running) -> None:
    content = b"<script>alert(1)</script>" * 200_000
    doc_id = stored(site, "Page", content, [BOB], path="a/Größe “x”.html", mime_type="text/html")
    answer = running.request("GET", f"/api/documents/{doc_id}/original", BOB)
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"Gr__e _x_.html\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%E2%80%9Cx%E2%80%9D.html"
    )
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    running.settle()
    audited = "SELECT count(*) FROM audit_log WHERE action = 'download' AND email = %s AND doc_ids::text[] = %s"
    assert site.sql(audited, BOB, [doc_id]) == [(1,)]


def test_the_name_has_the_ending_of_the_type_and_no_folder_that_is_hidden(site: Site, running: Running) -> None:
    folders = [{"id": "root", "name": "", "readers": [BOB]}, {"id": "root/x", "name": "layoffs", "readers": [ANN]}]
    doc_id = stored(
        site,
        "Plan",
        b"Plan",
        [BOB],
        source=SourceName.GOOGLE_DRIVE,
        path="layoffs/Plan",
        collection_ids=["root", "root/x"],
        folders=folders,
        mime_type="text/plain",
    )
    answer = running.request("GET", f"/api/documents/{doc_id}/original", BOB)
    assert answer.headers["content-disposition"].startswith('attachment; filename="Plan.txt";')


@pytest.mark.parametrize("change", ["hidden", "revoked", "deleted", "stale", "left"])
def test_what_may_not_be_read_is_answered_as_if_it_did_not_exist(site: Site, running: Running, change: str) -> None:
    doc_id = stored(site, "Secret", b"secret", [ANN] if change == "hidden" else [BOB])
    statements = {
        "revoked": "UPDATE documents SET permissions = '{}'",
        "deleted": "UPDATE documents SET state = 'deleted'",
        "stale": "UPDATE partitions SET acl_checked_at = now() - interval '9 days'",
        "left": "INSERT INTO departures VALUES ('files', 'root', 'bob@acme.com', 'e')",
    }
    if change in statements:
        assert running.request("GET", f"/api/documents/{doc_id}/original", BOB).content == b"secret"
        site.sql(statements[change])
    answers = []
    for one in (doc_id, ABSENT, "no-id"):
        answer = running.request("GET", f"/api/documents/{one}/original", BOB)
        answers.append((answer.status_code, {**answer.json(), "instance": None}, sorted(answer.headers)))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 404
    assert running.request("GET", f"/api/documents/{doc_id}/original", BOB, admin=True).status_code == 404


@pytest.mark.parametrize("path", ["/api/documents/{}/original", "/documents/{}/original"])
@pytest.mark.parametrize("change", ["narrowed", "signed out"])
def test_a_download_ends_once_its_reader_may_not_have_it(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch, path: str, change: str
) -> None:
    """A client may take an hour for a file that it began to read in time."""
    monkeypatch.setattr(access_check, "EVERY_SECONDS", 0.0)
    content = bytes(64 * 2**20)
    doc_id = stored(site, "Film", content, [BOB])
    headers = {**site.session(BOB), "Sec-Fetch-Site": "same-origin"}
    received: list[int] = []

    def read(answer: httpx.Response) -> None:
        for piece in answer.iter_bytes():
            if not received:
                site.sql(
                    "DELETE FROM sessions" if change == "signed out" else "UPDATE documents SET permissions = '{}'"
                )
            received.append(len(piece))

    with running.http.stream("GET", path.format(doc_id), headers=headers) as answer:
        assert answer.headers["content-length"] == str(len(content))
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
            read(answer)
    assert sum(received) < len(content)
    assert running.http.get("/healthz").status_code == 200


def test_a_conversation_and_bytes_that_are_gone_have_no_original(site: Site, running: Running) -> None:
    conversation = stored(
        site, "Talk", b"{}", [BOB], source=SourceName.SLACK, mime_type="application/vnd.concordance.conversation+json"
    )
    gone = stored(site, "Gone", b"gone", [BOB])
    Blobs(site.settings.lake_address).delete(site.sql("SELECT content_hash FROM documents WHERE title = 'Gone'")[0][0])
    for doc_id, says in ((conversation, "Open it at its source"), (gone, "not stored any more")):
        answer = running.request("GET", f"/api/documents/{doc_id}/original", BOB)
        assert answer.status_code == 404
        assert says in answer.json()["detail"]


def test_the_document_page_shows_images_and_links_to_the_original(site: Site, running: Running) -> None:
    image = stored(site, "A <b>plan", b"\x89PNG\r\n\x1a\n", [BOB], path="plan.png", mime_type="image/png")
    hidden = stored(site, "Secret", b"\x89PNG\r\n\x1a\n", [ANN], path="secret.png", mime_type="image/png")
    cookie = site.session(BOB)
    page = running.http.get(f"/documents/{image}", headers=cookie).text
    assert f'<img src="/documents/{image}/original" alt="A &lt;b&gt;plan">' in page
    assert f'href="/documents/{image}/original">Download</a>' in page
    original = running.http.get(f"/documents/{image}/original", headers=cookie)
    assert (original.content, original.headers["content-type"]) == (b"\x89PNG\r\n\x1a\n", "image/png")
    assert original.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert running.http.get(f"/documents/{hidden}/original", headers=cookie).status_code == 404
    assert running.http.get(f"/documents/{ABSENT}/original", headers=cookie).status_code == 404
    assert running.http.get(f"/documents/{image}/original").status_code == 401
    assert running.http.get(f"/api/documents/{image}/original", headers=cookie).status_code == 200
    elsewhere = cookie | {"Sec-Fetch-Site": "cross-site"}
    assert running.http.get(f"/api/documents/{image}/original", headers=elsewhere).status_code == 403


def test_the_document_page_shows_headings_within_a_passage(site: Site, running: Running) -> None:
    doc_id = site.add("Zoo", ["Parking\n\nBehind the stable."], [BOB])
    places = '[{"start_char": 0, "page": null, "anchor": "parking", "section_path": ["Parking"]}]'
    site.sql("UPDATE chunks SET places = %s WHERE doc_id = %s", places, doc_id)
    page = running.http.get(f"/documents/{doc_id}", headers={"Authorization": f"Bearer {site.token(BOB)}"}).text
    assert '<span id="at0" class="at"></span><h2>Parking</h2><p>Behind the stable.</p>' in page


def test_a_head_reads_no_file_and_is_no_download(site: Site, running: Running) -> None:
    content = b"The plan of the island. " * 1000
    doc_id = stored(site, "Plan", content, [BOB], mime_type="text/plain")
    answers = [running.request(method, f"/api/documents/{doc_id}/original", BOB) for method in ("HEAD", "GET")]
    assert [(one.status_code, len(one.content)) for one in answers] == [(200, 0), (200, len(content))]
    assert answers[0].headers["content-length"] == str(len(content))
    running.settle()
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'download'") == [(1,)]
    assert running.request("HEAD", f"/api/documents/{doc_id}/original", ANN).status_code == 404
    Blobs(site.settings.lake_address).delete(site.sql("SELECT content_hash FROM documents")[0][0])
    assert running.request("HEAD", f"/api/documents/{doc_id}/original", BOB).status_code == 404
