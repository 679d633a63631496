"""What services see of the settings, and what is shown of addresses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from orchestration.supervision.environment import (
    ALLOCATOR,
    NEEDS,
    SECRETS,
    bare_environment,
    child_environment,
    service_environment,
)
from resources.core import permissions
from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.settings import FileRoot, Settings, Widget, load, variables
from resources.settings.limits import Prompts
from resources.settings.urls import without_password
from resources.sources import configured

PARTS = {
    "file_roots": json.dumps([{"name": "a", "url": "file:///srv/a", "tenant": "acme", "dataset": "a", "permissions": []}]),
    "widgets": json.dumps([{"name": "docs", "origins": ["https://docs.acme.com"], "collection": "handbook"}]),
    "roles": json.dumps({"administrator": ["ada@acme.com", "group:it@acme.com"], "curator": ["bob@acme.com"]}),
    "drive__users": "* -*@sales.acme.com",
    "drive__labels": '{"secretLabel": "exclude", "own-Label": "no_model"}',
    "google_service_account_file": "/etc/key.json",
    "google_subject": "ada@acme.com",
    "drive_roots": "my_drive, 0ACompany",
    "http__allowed_hosts": "kb.acme.com kb.acme.de",
    "http__trusted_proxies": "10.0.0.0/8 ::1",
    "http__cors_origins": "https://a.acme.com https://b.acme.com",
    "search": json.dumps({"rerank_model": "/srv/{one}, two=3", "chunk_profile": "a500"}),
    "oidc_providers": json.dumps([{"name": "Acme", "issuer": "https://id.acme.com", "client_id": "kb"}]),
    "limits__upload_share_domains": "acme.com acme.de",
    "limits__embedding_prompts": '{"query": "query: "}',
    "limits": '{"search_rate_limit": 7}',
    "retention__runs": "9d",
}  # fmt: skip
"""Settings of groups, and what they need."""


def test_a_child_reads_the_very_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("CONCORDANCE_SYNC_MINUTES=7\n")
    root = FileRoot(name="handbook", url="file:///srv/handbook", tenant="acme", dataset="handbook", tags={"a": [1]})
    widget = Widget(name="docs", origins=("https://docs.acme.com",), collection="handbook")
    given = {"file_roots": (root,), "widgets": (widget,), "parse_workers": 3}
    ours = load(home=Path("relative"), http_port=4711, qdrant_api_key="k" * 8, **given)
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


def test_our_own_environment_decides_how_memory_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALLOCATOR:
        monkeypatch.delenv(name, raising=False)
    assert bare_environment(load()).items() >= ALLOCATOR.items()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    for environment in (bare_environment(load()), service_environment(load(), "serving")):
        assert environment["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=0"


@pytest.fixture
def full(tmp_path: Path) -> Settings:
    urls = {"postgres_url": "postgresql://ann:canary@db/x", "dagster_database_url": "postgresql://ann:canary@db/y"}
    urls |= dict.fromkeys(("alert_webhook_url", "job_webhook_url"), "https://hooks.example/" + "k" * 40)
    urls |= {"job_webhook_secret": "whsec_" + "k" * 40, "smtp_url": f"smtps://ann:{'k' * 40}@smtp.example"}
    acme = {"name": "Acme", "issuer": "https://id.example", "client_id": "x", "client_secret": "k" * 40}
    providers = {"oidc_providers": json.dumps([acme])}
    assert urls.keys() <= SECRETS
    secrets = dict.fromkeys(SECRETS, "k" * 40) | urls | providers
    return Settings(_env_file=None, home=tmp_path, http_port=4711, llm_model="model", **secrets)  # type: ignore[call-arg, arg-type]


def become(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CONCORDANCE_"):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        if name.startswith("CONCORDANCE_"):
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("service", NEEDS)
def test_a_service_reads_the_same_settings_but_for_the_secrets_it_does_not_use(
    service: str, full: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("".join(f"CONCORDANCE_{name.upper()}={'f' * 40}\n" for name in SECRETS))
    become(service_environment(full, service), monkeypatch)
    theirs = load()
    used = NEEDS[service].secrets
    for name in Settings.model_fields:
        if name not in SECRETS - used:
            assert getattr(theirs, name) == getattr(full, name), name
    for name in SECRETS - used:
        assert getattr(theirs, name) is not None, "given, as far as anyone asks whether it is"
        with pytest.raises(ConfigurationError, match=f"CONCORDANCE_{name.upper()}"):
            getattr(theirs, name).get_secret_value()
    assert configured(theirs, SourceName.SLACK)
    assert hash(theirs.slack_bot_token) is not None
    assert "k" * 40 not in repr(theirs)


def test_a_secret_that_is_not_set_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    become(service_environment(plain, "serving"), monkeypatch)
    theirs = load()
    assert theirs == plain
    assert not configured(theirs, SourceName.SLACK)


@pytest.mark.parametrize("name", ["CT2_FORCE_CPU_ISA", "OMP_NUM_THREADS", "TZ"])
def test_every_service_computes_alike(name: str, full: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "as it is here")
    made = [service_environment(full, service) for service in NEEDS] + [bare_environment(full)]
    assert {environment.get(name) for environment in made} == {"as it is here"}


def test_our_own_environment_stays_ours(full: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"SOME_TOKEN": "1", "AWS_SECRET_ACCESS_KEY": "2", "HTTPS_PROXY": "3", "PGPASSWORD": "4", "LC_ALL": "C"}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    passed = {name: ours.keys() & service_environment(full, name) for name in NEEDS}
    outside = {"AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "PGPASSWORD", "LC_ALL"}
    assert passed == {
        "dagster-code": outside,
        "run-workers": outside,
        "serving": outside,
        "slack-events": {"HTTPS_PROXY", "PGPASSWORD", "LC_ALL"},
        "dagster-webserver": {"PGPASSWORD", "LC_ALL"},
        "dagster-daemon": {"PGPASSWORD", "LC_ALL"},
    }
    assert ours.keys() & bare_environment(full) == {"LC_ALL"}
    embedded = full.model_copy(update={"postgres_url": None})
    assert "PGPASSWORD" not in service_environment(embedded, "serving"), (
        "the embedded Postgres has a password of its own"
    )


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
    settings = Settings(_env_file=None, postgres_url=dsn)  # type: ignore[call-arg]
    assert child_environment(settings)["CONCORDANCE_DAGSTER_POSTGRES_URL"] == url


def test_addresses_are_shown_without_credentials() -> None:
    shown = without_password("postgresql://ann:secret@db.acme.com:5432/x?password=secret&passfile=/p")
    assert shown == "postgresql://db.acme.com:5432/x"
    assert without_password("https://vectors.acme.com") == "https://vectors.acme.com"


def test_old_names_are_read_or_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    variables.warn.cache_clear()
    for name, value in {
        "PARSE_WORKERS": "3",
        "RETENTION_AUDIT": "forever",
        "MAX_VECTORS": "7",
        "AGREEMENT": "0.5",
    }.items():
        monkeypatch.setenv(f"CONCORDANCE_{name}", value)
    for name in ("HTTP_HOST", "FUSION"):  # of another program
        monkeypatch.setenv(name, "10.0.0.1")
    monkeypatch.setenv("CONCORDANCE_LIMITS", "max_vectors=9, parse_seconds=2.5")
    made = load()
    assert (made.parse_workers, made.retention_audit, made.max_vectors, made.parse_seconds) == (3, "forever", 9, 2.5)
    assert (made.fusion, made.agreement) == ("weighted", 0.3)
    assert "CONCORDANCE_PARSE_WORKERS is now CONCORDANCE_LIMITS__PARSE_WORKERS" in caplog.text
    assert "CONCORDANCE_RETENTION_AUDIT is now CONCORDANCE_RETENTION__AUDIT" in caplog.text
    assert "CONCORDANCE_AGREEMENT is now fixed and ignored" in caplog.text
    assert "HTTP_HOST" not in caplog.text


def test_old_names_of_lists_and_objects_are_read_from_env_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    variables.warn.cache_clear()
    (tmp_path / ".env").write_text(
        "CONCORDANCE_HTTP_HOST=::1\n"
        "CONCORDANCE_TRUSTED_PROXIES=10.0.0.1,::1\n"
        'CONCORDANCE_DRIVE_LABELS={"secret": "exclude", "own": "no_model"}\n'
        "CONCORDANCE_UPLOAD_SHARE_DOMAINS=acme.com, acme.de\n"
        "CONCORDANCE_LIMITS=cors_origins=https://old.acme.com,dagster_public_url=https://dagster.acme.com\n"
        "CONCORDANCE_HTTP=cors_origins=https://a.acme.com\n"
    )
    made = load()
    assert (made.http_host, made.trusted_proxies) == ("::1", ("10.0.0.1", "::1"))
    assert made.drive_labels == {"secret": "exclude", "own": "no_model"}
    assert made.upload_share_domains == ("acme.com", "acme.de")
    assert (made.cors_origins, made.dagster_public_url) == (("https://a.acme.com",), "https://dagster.acme.com")
    for line in (
        "CONCORDANCE_HTTP_HOST is now CONCORDANCE_HTTP__HOST",
        "CONCORDANCE_DRIVE_LABELS is now CONCORDANCE_DRIVE__LABELS",
        "CONCORDANCE_UPLOAD_SHARE_DOMAINS is now CONCORDANCE_LIMITS__UPLOAD_SHARE_DOMAINS",
        "CONCORDANCE_LIMITS__DAGSTER_PUBLIC_URL is now CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL",
        "CONCORDANCE_HTTP is a comma list, which the next version does not read: write each setting as a variable of its own, such as"
        " CONCORDANCE_HTTP__CORS_ORIGINS=VALUE",
    ):
        assert line in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "link_sharing=domain, labels=secret:exclude own:no_model, users=* -*@sales.acme.com",
        'labels={"secret": "exclude", "own": "no_model"},users=["*", "-*@sales.acme.com"],link_sharing=domain',
        '{"users": ["*", "-*@sales.acme.com"], "labels": {"secret": "exclude", "own": "no_model"}, "link_sharing": "domain"}',
    ],
)
def test_a_group_is_written_as_words_or_as_json(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_DRIVE", text)
    monkeypatch.setenv("CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE", "key.json")
    monkeypatch.setenv("CONCORDANCE_GOOGLE_SUBJECT", "ada@acme.com")
    made = load()
    assert made.drive_labels == {"secret": "exclude", "own": "no_model"}
    assert (made.drive_users, made.drive_link_sharing) == (("*", "-*@sales.acme.com"), "domain")


def test_users_are_named_however_their_letters_are_composed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_DRIVE__USERS", "* -zo\N{LATIN SMALL LETTER E}\N{COMBINING DIAERESIS}@ACME.com")
    monkeypatch.setenv("CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE", "key.json")
    monkeypatch.setenv("CONCORDANCE_GOOGLE_SUBJECT", "ada@acme.com")
    assert load().drive_users == ("*", "-zo\N{LATIN SMALL LETTER E WITH DIAERESIS}@acme.com")


def test_a_nested_variable_takes_precedence_over_its_group_and_that_over_a_former_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("CONCORDANCE_LIMITS__PARSE_SECONDS=1\nCONCORDANCE_LIMITS__MAX_VECTORS=11\n")
    monkeypatch.setenv("CONCORDANCE_PARSE_WORKERS", "2")
    monkeypatch.setenv("CONCORDANCE_PARSE_SECONDS", "2")
    monkeypatch.setenv("CONCORDANCE_LIMITS", '{"parse_workers": 3, "search_rate_limit": 3}')
    monkeypatch.setenv("CONCORDANCE_LIMITS__SEARCH_RATE_LIMIT", "4")
    made = load()
    assert (made.parse_workers, made.parse_seconds, made.search_rate_limit, made.max_vectors) == (3, 2, 4, 11)


def test_no_group_holds_a_secret() -> None:
    assert set() == SECRETS & variables.NOT_ALONE


def test_a_setting_is_named_and_written_as_people_write_it() -> None:
    assert variables.variable_of("drive_users") == "CONCORDANCE_DRIVE__USERS"
    assert variables.variable_of("retention_audit") == "CONCORDANCE_RETENTION__AUDIT"
    assert variables.assignment("drive_follow_shortcuts", "true") == "CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS=true"
    assert variables.assignment("drive_roots", "my_drive") == "CONCORDANCE_DRIVE_ROOTS=my_drive"


def test_a_limit_that_is_an_object_is_read_here_and_by_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example for E5 in the documentation: its comma does not end the entry."""
    monkeypatch.chdir(tmp_path)
    prompts = '{"query": "query: ", "passage": "passage: "}'
    monkeypatch.setenv("CONCORDANCE_LIMITS", f"parse_workers=3,embedding_prompts={prompts}, max_vectors=9")
    made = load()
    assert made.embedding_prompts == Prompts(query="query: ", passage="passage: ")
    assert (made.parse_workers, made.max_vectors) == (3, 9)
    monkeypatch.setenv("CONCORDANCE_LIMITS", service_environment(made, "serving")["CONCORDANCE_LIMITS"])
    assert load().embedding_prompts == made.embedding_prompts


@pytest.mark.parametrize(
    ("limits", "message"),
    [("workers=3", "'workers' is not one of"), ("parse_workers=0", "CONCORDANCE_LIMITS__PARSE_WORKERS")],
)
def test_a_wrong_limit_is_named(limits: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_LIMITS", limits)
    with pytest.raises(ConfigurationError, match=message):
        load()


@pytest.mark.parametrize("service", [None, "serving", "run-workers"])
def test_settings_with_parts_reach_services_as_given(
    service: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"home": str(tmp_path), **PARTS}.items():
        monkeypatch.setenv(f"CONCORDANCE_{name.upper()}", value)
    given = load()
    with_parts = {name for name, one in Settings.model_fields.items() if _has_parts(one.annotation)}
    without = {"sign_in_domains"}  # words, as `allowed_hosts`, and refused beside a provider
    assert with_parts - variables.FIXED - without <= given.model_fields_set
    made = child_environment(given) if service is None else service_environment(given, service)
    for name, value in made.items():
        if name.startswith("CONCORDANCE_"):
            monkeypatch.setenv(name, value)
    read = load()
    for name in given.model_fields_set - (SECRETS - NEEDS[service].secrets if service else set()):
        assert getattr(read, name) == getattr(given, name), name


def _has_parts(annotation: Any) -> bool:
    origin = getattr(annotation, "__origin__", annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping | tuple | list | set | BaseModel)


def test_the_domains_of_settings_are_written_as_those_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = permissions.principals_of("ann@M\u00fcnchen.example", ())
    monkeypatch.setenv("CONCORDANCE_LIMITS__UPLOAD_SHARE_DOMAINS", "M\u0075\u0308nchen.example Domain:@acme.com public")
    shared = load().upload_share_domains
    assert f"domain:{shared[0]}" in domain
    assert shared[1:] == ("acme.com", "public")
