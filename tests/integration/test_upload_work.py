"""The work that an upload takes depends on what its owner has, never on what others have: it is the same for a text that exists
elsewhere, hidden from the owner, and for a new one."""

from __future__ import annotations

from typing import Any

from resources.core.domain import SourceName
from resources.stores import uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import session
from tests.fixtures.installation import Installation

ADA, EVE = "ada@acme.example", "eve@acme.example"
SALARY = "Offer\n\nThe yearly salary of the new head of otters is 187,400 euros.\n"


def worked(installation: Installation, owner: str, text: str, name: str | None = None) -> dict[str, Any]:
    """Upload as a person, sync, and return the work that was done."""
    blob = Blobs(installation.settings.lake_address).put([text.encode()])
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        upload = uploads.NewUpload(
            owner=owner, content_hash=blob.content_hash, size=blob.size, file_name="offer.md", title=None, description=None,
            mime_type="text/markdown", permissions=[], tags={}, name=name,
        )  # fmt: skip
        uploads.record(connection, upload)
    run = installation.sync(SourceName.UPLOAD)
    assert (run.error, run.counts.synced) == (None, 1)
    assert installation.agrees()
    stages = {stage: dict(installation.last[stage]) for stage in ("parsed", "chunked", "embedded")}
    stages["parsed"].pop("documents")
    return stages | {"counted": run.counts.embedded}


def test_a_text_that_others_have_takes_the_work_of_a_new_one(installation: Installation) -> None:
    new = worked(installation, EVE, SALARY.replace("187,400", "187,300"))
    installation.write("offer.md", SALARY, permissions=[ADA])
    installation.sync()
    worked(installation, ADA, SALARY.replace("187,400", "187,500"))
    assert worked(installation, EVE, SALARY) == new, "a file root has this text"
    assert worked(installation, EVE, SALARY.replace("187,400", "187,500")) == new, "another person uploaded it"
    assert new["counted"] == 1


def test_ones_own_text_is_not_embedded_again(installation: Installation) -> None:
    worked(installation, EVE, SALARY)
    assert worked(installation, EVE, SALARY, name="offer")["counted"] == 0
