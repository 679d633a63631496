"""What services see of the settings, and what is shown of addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.environment import child_environment, dagster_storage_url, without_password
from resources.settings import FileRoot, load


def test_a_child_reads_the_very_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("CONCORDANCE_SYNC_MINUTES=7\n")
    root = FileRoot(name="handbook", url="file:///srv/handbook", tenant="acme", dataset="handbook", tags={"a": [1]})
    ours = load(
        home=Path("relative"), http_port=4711, qdrant_api_key="k" * 8, file_roots=(root,), embedding_budget_stop=False
    )
    (tmp_path / ".env").unlink()
    environment = child_environment(ours)
    for name, value in environment.items():
        if name.startswith("CONCORDANCE_"):
            monkeypatch.setenv(name, value)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    theirs = load()
    assert theirs == ours
    assert theirs.home == tmp_path / "relative"
    assert environment["DAGSTER_HOME"] == str(tmp_path / "relative" / "dagster")


@pytest.mark.parametrize(
    ("dsn", "url"),
    [
        (
            "postgresql://concordance@127.0.0.1:5433/concordance?passfile=/a%20b/pgpass",
            "postgresql+psycopg2://concordance@127.0.0.1:5433/concordance?passfile=%2Fa%20b%2Fpgpass&options=-csearch_path%3Ddagster",
        ),
        ("postgres://u:p%40@db/x", "postgresql+psycopg2://u:p%40@db/x?options=-csearch_path%3Ddagster"),
        (
            "postgresql://db/x?sslmode=require&options=-cjit%3Doff",
            "postgresql+psycopg2://db/x?sslmode=require&options=-cjit%3Doff%20-csearch_path%3Ddagster",
        ),
    ],
)
def test_dagster_has_a_schema_of_its_own_and_psycopg_2(dsn: str, url: str) -> None:
    assert dagster_storage_url(dsn) == url


def test_addresses_are_shown_without_credentials() -> None:
    shown = without_password("postgresql://ann:secret@db.acme.com:5432/x?password=secret&passfile=/p")
    assert shown == "postgresql://db.acme.com:5432/x"
    assert without_password("https://vectors.acme.com") == "https://vectors.acme.com"
