"""Which process of a running installation holds which secret: read from the system, with a canary in every secret setting."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from cryptography.fernet import Fernet

from orchestration.supervision import run_state
from orchestration.supervision.environment import SECRETS
from orchestration.supervision.supervisor import Supervisor
from resources import keys
from resources.servers.processes import free_port
from resources.settings import Settings, load
from tests.fixtures.postgres import PostgresProcess

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")

STORES = {
    "postgres_url",
    "qdrant_api_key",
    "encryption_keys",
    "openai_api_key",
    "llm_api_key",
    "google_client_secret",
    "google_service_account_key",
}
PIPELINE = STORES | {
    "dagster_database_url",
    "dagster_secret",
    "drive_token",
    "slack_bot_token",
    "alert_webhook_url",
    "AWS_SECRET_ACCESS_KEY",
    "HTTPS_PROXY",
}
HOLDERS = {
    "qdrant": {"qdrant_api_key"},
    "dagster-code": PIPELINE,
    "run-workers": PIPELINE,
    "dagster-webserver": {"dagster_secret", "dagster_database_url"},
    "dagster-daemon": {"dagster_database_url"},
    "serving": STORES
    | {
        "slack_bot_token",
        "slack_signing_secret",
        "oidc_providers",
        "secret_key",
        "metrics_token",
        "dagster_secret",
        "alert_webhook_url",
        "job_webhook_url",
        "job_webhook_secret",
        "smtp_url",
        "AWS_SECRET_ACCESS_KEY",
        "HTTPS_PROXY",
    },
    "slack-events": {"postgres_url", "qdrant_api_key", "slack_app_token", "HTTPS_PROXY"},
}
HOLDERS["serving-2"] = HOLDERS["serving"]
"""The table of docs/security.md."""
OURS = {
    "AWS_SECRET_ACCESS_KEY": "canary-of-the-object-store",
    "HTTPS_PROXY": "http://user:canary-of-the-proxy@127.0.0.1:9",
    "SOME_OTHER_TOKEN": "canary-of-another-program",
}
"""Variables of the shell that starts the installation."""


def canaries(postgres: PostgresProcess) -> dict[str, str]:
    """Return a value for every secret setting."""
    password = keys.load(postgres.settings).postgres_password
    made = {name: f"canary-{name}-{'x' * 32}" for name in SECRETS}
    made["encryption_keys"] = Fernet.generate_key().decode()
    provider = {
        "name": "Acme",
        "issuer": "https://id.example",
        "client_id": "x",
        "client_secret": made["oidc_providers"],
    }
    made["oidc_providers"] = json.dumps([provider])
    made["alert_webhook_url"] = "http://127.0.0.1:9/canary-alert"
    made["job_webhook_url"] = "http://127.0.0.1:9/canary-jobs"
    made["job_webhook_secret"] = f"whsec_{base64.b64encode(b'canary of the webhook of jobs').decode()}"
    made["smtp_url"] = "smtp://ann:canary-of-the-mail-server@127.0.0.1:9"
    account, place = f"postgresql://concordance:{quote(password)}", f"{postgres.settings.postgres_port}/concordance"
    made["postgres_url"] = f"{account}@127.0.0.1:{place}"
    made["dagster_database_url"] = f"{account}@localhost:{place}?options=-csearch_path%3Ddagster"
    return made


@pytest.fixture
def given(postgres_process: PostgresProcess) -> dict[str, str]:
    return canaries(postgres_process)


@pytest.fixture
def settings(given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Every secret is in `.env`, which services must not read again."""
    ports = {f"{name}_port": free_port() for name in ("http", "qdrant", "dagster")}
    more = {
        "home": tmp_path / "home", "drive_api_url": "http://127.0.0.1:9", "slack_api_url": "http://127.0.0.1:9/api",
        "google_client_id": "client", "serving_workers": 2, "llm_model": "model", "llm_base_url": "https://api.openai.com/v1",
    }  # fmt: skip
    lines = [f"CONCORDANCE_{name.upper()}={value}" for name, value in (given | ports | more).items()]
    (tmp_path / ".env").write_text("\n".join(lines) + "\n")
    for name in [name for name in os.environ if name.startswith("CONCORDANCE_")]:
        monkeypatch.delenv(name)
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return load()


@pytest.fixture
def running(settings: Settings) -> Iterator[Settings]:
    supervisor = Supervisor(settings)
    supervisor.start()
    yield settings
    supervisor.stop()


def held(process: psutil.Process, known: dict[str, str]) -> set[str]:
    """Return the secrets in a process's environment."""
    text = Path(f"/proc/{process.pid}/environ").read_text()
    return {name for name, value in known.items() if value.removeprefix("postgresql") in text}


def family(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def test_each_process_holds_the_secrets_that_it_uses_and_no_others(
    running: Settings, given: dict[str, str], postgres_process: PostgresProcess
) -> None:
    known = given | OURS
    found = run_state.read(running).services
    assert found.keys() - {"postgres"} == HOLDERS.keys()
    for name, expected in HOLDERS.items():
        pid = found[name].pid
        assert pid is not None
        assert held(psutil.Process(pid), known) == expected, name
        for process in family(pid):
            assert held(process, known) <= expected, process.cmdline()


def test_the_database_holds_none(postgres_process: PostgresProcess, given: dict[str, str]) -> None:
    environment = Path(f"/proc/{postgres_process.pid}/environ").read_text()
    assert "CONCORDANCE_" not in environment
    assert held(psutil.Process(postgres_process.pid), given | OURS) == set()
