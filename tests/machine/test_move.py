"""An installation moves from its embedded parts to servers: Postgres, a vector server and an object store that others run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from orchestration.cli import run
from resources import keys
from resources.core.domain import SourceName
from resources.settings import Settings, load
from tests.fixtures.postgres import PostgresProcess
from tests.fixtures.processes import Processes
from tests.fixtures.s3 import BUCKET, S3Server
from tests.fixtures.vector import VectorProcess
from tests.machine.test_backup import found, place, rows, running, settings, sync

__all__ = ["place", "settings"]

KEY = "q" * 32
QUESTIONS = ("When do otters sleep?", "What confuses the tsetse fly?", "Who counts ships?")
MORE = {
    "otters.md": "# Otters\n\nOtters of the wobbegong river sleep until noon.\n",
    "ships.md": "# Ships\n\nThe lighthouse keeper counts ships at night.\n",
}


@pytest.fixture
def vector(tmp_path: Path) -> Iterator[VectorProcess]:
    process = VectorProcess(tmp_path / "vector", api_key=KEY)
    process.start()
    yield process
    process.close()


def test_searches_are_equal_after_a_move_to_servers(
    settings: Settings,
    place: Path,
    store: S3Server,
    vector: VectorProcess,
    postgres_process: PostgresProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in MORE.items():
        (place / "docs" / name).write_text(text)
    copy = place / "backup"
    with running(settings):
        sync(settings, SourceName.FILES)
        before = [found(settings, question) for question in QUESTIONS]
        assert all(before), before
        assert run(["backup", str(copy)]) == 0
        used = rows(settings, "SELECT texts, tokens FROM embedding_usage")

    processes = Processes(tmp_path / "set", postgres_process, vector, KEY)
    password = quote(keys.load(postgres_process.settings).postgres_password)
    url = f"postgresql://concordance:{password}@127.0.0.1:{postgres_process.settings.postgres_port}/concordance"
    moved = {
        "HOME": place / "moved", "POSTGRES_URL": url, "QDRANT_URL": vector.url, "QDRANT_API_KEY": KEY,
        "LAKE_URL": f"s3://{BUCKET}/lake", "HTTP_PORT": processes.port,
    }  # fmt: skip
    for name, value in moved.items():
        monkeypatch.setenv(f"CONCORDANCE_{name}", str(value))
    store.objects["lake/other"] = b""
    assert run(["restore", str(copy)]) == 2
    del store.objects["lake/other"]
    assert run(["restore", str(copy)]) == 0
    assert {name.partition("/")[0] for name in store.objects} == {"lake"}
    assert len([name for name in store.objects if "/blobs/" in name]) == len(MORE) + 1

    made: dict[str, Any] = json.loads((place / "moved/keys.json").read_text())
    for name in ("secret_key", "dagster_secret", "metrics_token"):
        (processes.secrets / name.upper()).write_text(made[name])
    (processes.secrets / "ENCRYPTION_KEYS").write_text(made["encryption_key"])
    processes.environment |= {
        "CONCORDANCE_LAKE_URL": f"s3://{BUCKET}/lake",
        "CONCORDANCE_FILE_ROOTS": settings_text(settings),
        **store.environment,
    }
    try:
        processes.command("migrate")
        processes.command("reconcile", "--apply")
        processes.start("serve")
        processes.await_status("serve", f"http://127.0.0.1:{processes.port}/readyz")
        assert [found(load(), question) for question in QUESTIONS] == before
        with psycopg.connect(url) as connection:
            now = connection.execute("SELECT texts, tokens FROM embedding_usage").fetchall()
        assert now == [tuple(row.values()) for row in used], "nothing is embedded again"
    finally:
        processes.close()


def settings_text(settings: Settings) -> str:
    return json.dumps([root.model_dump(mode="json", exclude_unset=True) for root in settings.file_roots])


def test_a_move_that_fails_leaves_the_bucket_empty(
    settings: Settings, place: Path, store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = place / "backup"
    with running(settings):
        sync(settings, SourceName.FILES)
        assert run(["backup", str(copy)]) == 0
    (copy / "postgres.dump").write_bytes(b"no dump")
    monkeypatch.setenv("CONCORDANCE_HOME", str(place / "moved"))
    monkeypatch.setenv("CONCORDANCE_LAKE_URL", f"s3://{BUCKET}/lake")
    assert run(["restore", str(copy)]) == 1
    assert store.objects == {}
