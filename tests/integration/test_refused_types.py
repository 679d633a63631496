"""Files of types that are not read are reported once, and stay on the page of sources with their number."""

from __future__ import annotations

from typing import Any

from tests.fixtures.desk import Desk

ROOT = "root@acme.example"


def errors(desk: Desk, job_id: str | None) -> list[dict[str, Any]]:
    return desk.installation.rows("SELECT source_id FROM sync_errors WHERE job_id = %s ORDER BY source_id", job_id)


def test_each_is_reported_by_the_first_sync_alone(desk: Desk) -> None:
    for name in ("a.mp4", "films/b.mp4", "letter.doc"):
        desk.installation.write(name, b"\x00\x01\x02")
    first = desk.installation.sync()
    assert [row["source_id"] for row in errors(desk, first.job_id)] == [
        "docs/a.mp4",
        "docs/films/b.mp4",
        "docs/letter.doc",
    ]
    again = desk.installation.sync()
    assert (errors(desk, again.job_id), again.counts.skipped) == ([], 0)
    page = desk.running.request("GET", "/sources", ROOT, admin=True).text
    listed = page.partition("Files that are not read because of their type")[2].partition("</details>")[0]
    assert "<li>2 × Files of type .mp4 are not supported.</li>" in listed
    assert "<li>1 × Files of type .doc are not supported. Save it as .docx.</li>" in listed
    desk.installation.write("a.mp4", b"\x00\x01\x02\x03")
    assert len(errors(desk, desk.installation.sync().job_id)) <= 1


def test_an_archive_is_listed_and_not_unpacked(desk: Desk) -> None:
    import io
    import zipfile

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("offers/otter.md", "The otter costs nine euros.")
    desk.installation.write("offers.zip", target.getvalue())
    desk.installation.sync()
    assert desk.found("otter.md")[0] == "docs/offers.zip"
    (row,) = desk.installation.rows("SELECT notes FROM documents WHERE source_id = 'docs/offers.zip'")
    assert [note["kind"] for note in row["notes"]] == ["not_read"]
    assert desk.installation.rows("SELECT 1 FROM chunks WHERE chunk_text LIKE '%%nine euros%%'") == []
