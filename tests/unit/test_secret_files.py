"""Secrets that files hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.diagnosis.unknown_settings import unknown_settings
from orchestration.supervision import dagster_folder
from orchestration.supervision.environment import SECRETS, child_environment, process_environment
from resources import dagster_access
from resources.core.errors import ConfigurationError
from resources.settings import Settings, load
from resources.settings.secret_files import secret_fields, variables_of

KEY = "k" * 48


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))


def test_every_secret_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secret_fields(Settings) == SECRETS
    documented = (Path(__file__).parents[2] / "docs/processes.md").read_text()
    for field, variable in variables_of(Settings).items():
        value = {"encryption_keys": "", "job_webhook_secret": f"whsec_{'k' * 40}"}.get(field, KEY)
        value = "https://hooks.example/x" if field.endswith("webhook_url") else value
        value = "smtps://ann:secret@smtp.example" if field == "smtp_url" else value
        value = "postgresql://ann:secret@db/x" if field.endswith(("postgres_url", "database_url")) else value or KEY
        value = (
            '[{"name": "Acme", "issuer": "https://id.example", "client_id": "x"}]'
            if field == "oidc_providers"
            else value
        )
        (tmp_path / field).write_text(f"{value}\n")
        monkeypatch.setenv(variable, str(tmp_path / field))
        if field == "job_webhook_url":  # which is not accepted by itself
            monkeypatch.setenv("CONCORDANCE_JOB_WEBHOOK_SECRET", f"whsec_{'k' * 40}")
        found = getattr(load(), field)
        assert found.get_secret_value() == value, field
        assert f"`{variable}`" in documented
        monkeypatch.delenv(variable)
        monkeypatch.delenv("CONCORDANCE_JOB_WEBHOOK_SECRET", raising=False)


def test_the_name_of_a_file_may_be_in_dotenv_and_is_a_known_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / ".env").write_text(f"CONCORDANCE_SECRET_KEY_FILE={tmp_path / 'key'}\n")
    settings = load()
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == KEY
    assert unknown_settings() == []
    monkeypatch.setenv("CONCORDANCE_SECRET_KEY_FILE", str(tmp_path / "key"))
    for environment in (child_environment(settings), process_environment(settings, "serving")):
        assert environment["CONCORDANCE_SECRET_KEY"] == KEY
        assert "CONCORDANCE_SECRET_KEY_FILE" not in environment
    assert "CONCORDANCE_SECRET_KEY" not in process_environment(settings, "dagster-daemon")


@pytest.mark.parametrize("reason", ["is not text in UTF-8", "cannot be read"])
def test_a_dotenv_that_cannot_be_read_is_named(reason: str, tmp_path: Path) -> None:
    if reason == "cannot be read":
        (tmp_path / ".env").symlink_to("/proc/self/mem")  # which not even root can read from its beginning
    else:
        (tmp_path / ".env").write_text("# Zürich\n", encoding="latin-1")
    with pytest.raises(ConfigurationError, match=reason) as error:
        load()
    assert str(tmp_path / ".env") in str(error.value)
    assert unknown_settings() == []  # the command itself reports it


@pytest.mark.parametrize(
    ("content", "beside", "reason"),
    [
        (None, None, "cannot be read"),
        ("\n", None, "is empty"),
        (KEY, KEY, "set one of them"),
        ("short", None, "32 characters"),
    ],
)
def test_a_wrong_file_is_named_and_its_content_is_not(
    content: str | None, beside: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    monkeypatch.setenv("CONCORDANCE_SECRET_KEY_FILE", str(tmp_path / "key"))
    if beside:
        monkeypatch.setenv("CONCORDANCE_SECRET_KEY", beside)
    with pytest.raises(ConfigurationError, match=reason) as error:
        load()
    assert "CONCORDANCE_SECRET_KEY" in str(error.value)
    assert KEY not in str(error.value)


def test_the_read_only_secret_follows_from_the_administrators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONCORDANCE_DAGSTER_SECRET", KEY)
    found = dagster_access.secrets_of(load())
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "other"))
    assert dagster_access.secrets_of(load()) == found
    assert found.admin == KEY
    assert found.role(found.viewer) == "viewer"
    assert KEY not in found.viewer
    assert not (tmp_path / "home").exists()


def test_an_instance_file_of_the_operators_own_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "dagster"
    dagster_folder.write(folder, "port: 1", 3)
    written = (folder / "dagster.yaml").read_text()
    (folder / "dagster.yaml").write_text(written + "# changed\n")
    dagster_folder.write(folder, "port: 1", 3)
    assert (folder / "dagster.yaml").read_text() == written
    own = written.partition("\n")[2]
    (folder / "dagster.yaml").write_text(own)
    dagster_folder.write(folder, "port: 2", 3)
    assert (folder / "dagster.yaml").read_text() == own
    assert "port: 2" in (folder / "workspace.yaml").read_text()


@pytest.mark.parametrize("address", ["code", "code:", "code:4000/x", ":4000"])
def test_a_wrong_address_of_the_code_server_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS", address)
    with pytest.raises(ConfigurationError, match="CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS: must be a host and a port"):
        load()
