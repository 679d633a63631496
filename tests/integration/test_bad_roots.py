"""One root that cannot be read never stops the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.settings import FileRoot
from tests.fixtures.installation import Installation


def test_a_bad_root_does_not_stop_the_others(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    bad = {"missing": (tmp_path / "missing").as_uri(), "bucket": "az://container/prefix"}
    more = [FileRoot(name=name, url=url, tenant="acme", dataset=name) for name, url in bad.items()]
    roots = (*more, *installation.settings.file_roots)
    installation.settings = installation.settings.model_copy(update={"file_roots": roots})
    installation.write("leave.md", "# Leave\n\nParental leave is 26 weeks.\n")
    job = installation.sync()
    assert [row["source_id"] for row in installation.rows("SELECT source_id FROM documents")] == ["docs/leave.md"]
    faults = installation.rows("SELECT source_id FROM sync_errors ORDER BY source_id")
    assert [row["source_id"] for row in faults] == ["bucket", "missing"]
    assert job.error is not None
    assert str(tmp_path / "missing") in job.error
    assert "CONCORDANCE_FILE_ROOTS (bucket)" in job.error
