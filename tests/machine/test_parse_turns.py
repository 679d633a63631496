"""Uploads of several people in one sync: one person's slow files do not delay others, and are not retried forever."""

from __future__ import annotations

from resources.core.domain import SourceName
from resources.settings import Settings
from resources.stores import uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import session
from tests.fixtures.desk import Desk, desk
from tests.machine.test_parser_pool import HANGS

__all__ = ["desk"]

EVE, BOB = "eve@acme.example", "bob@acme.example"


def put(settings: Settings, owner: str, name: str, data: bytes, mime_type: str) -> str:
    content_hash = Blobs(settings.lake_address).put([data]).content_hash
    with session(settings.postgres_dsn) as connection:
        upload = uploads.NewUpload(
            owner=owner, content_hash=content_hash, size=len(data), file_name=name, title=None, description=None,
            mime_type=mime_type, permissions=[], tags={},
        )  # fmt: skip
        kept = uploads.record(connection, upload)
        connection.commit()
    return kept.source_id


def counted(desk: Desk) -> int:
    (row,) = desk.installation.rows(
        "SELECT count(*) AS n FROM sync_errors WHERE source_id LIKE %s AND reason LIKE 'Parsing took%%'", f"{EVE}:%"
    )
    return int(row["n"])


def test_slow_files_of_one_person_wait_and_are_tried_once(desk: Desk) -> None:
    settings = desk.installation.settings.model_copy(update={"parse_seconds": 2.0, "parse_workers": 2})
    desk.installation.settings = settings
    bombs = [put(settings, EVE, f"bomb{number}.md", HANGS + b"a" * number, "text/markdown") for number in range(3)]
    good = put(settings, BOB, "lemurs.txt", b"Lemurs are fed with mangoes at noon.", "text/plain")
    desk.installation.sync(SourceName.UPLOAD)
    states = desk.states(SourceName.UPLOAD)
    assert states[good] == ("live", None)
    assert desk.found("What are lemurs fed with?", BOB)[0] == good
    refused = [states[bomb] for bomb in bombs if states[bomb][0] == "skipped"]
    # The worker that does not parse Bob's files may have begun a second one before the first was given up.
    assert 1 <= len(refused) < 3
    assert all("Parsing took longer than 2 s" in str(reason) for _, reason in refused)
    for _ in bombs[1:]:
        desk.installation.sync(SourceName.UPLOAD)
    assert [desk.states(SourceName.UPLOAD)[bomb][0] for bomb in bombs] == ["skipped"] * 3
    before = counted(desk)
    desk.installation.sync(SourceName.UPLOAD)
    assert counted(desk) == before
