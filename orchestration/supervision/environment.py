"""Environment variables of the processes that we start.

A service gets only the secrets that it uses, and from our own environment only what programs need to run.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, SecretStr

from resources import sample_people
from resources.core.errors import ConfigurationError
from resources.settings import Settings, read, secret_files, setting_name, variables
from resources.sources import specs
from resources.withheld import variable

ROOT = Path(__file__).resolve().parents[2]

SECRETS = secret_files.secret_fields(Settings)
"""The settings that hold secrets."""

RUN_NAMES = frozenset({
    "HOME", "PATH", "USER", "LOGNAME", "TZ", "TMPDIR", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LD_PRELOAD", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
})  # fmt: skip
RUN_PREFIXES = (
    "LC_",
    "PYTHON",
    "XDG_",
    "MALLOC_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "CT2_",
    "POLARS_",
    "RAYON_",
    "GRPC_",
    "COVERAGE_",
)
"""Variables that programs need to run as usual on this machine; none holds credentials."""

PROXY_NAMES = frozenset({
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
})  # fmt: skip
OUTSIDE_NAMES = PROXY_NAMES | {"IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT"}
OUTSIDE_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "OTEL_")
"""Proxies, the credentials of object stores, and where traces are sent."""

ALLOCATOR: Mapping[str, str] = MappingProxyType({"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
"""How the C library allocates memory in each process, unless our own environment says it.

Two heaps: by default there are eight per core, and each keeps what was once freed in it: a service took 226 MB instead of 161, a used run
worker 460 instead of 290. Huge pages where the kernel has them: a search reads megabytes of vectors, which lie on thousands of small ones.
Sources: mallopt(3); "Memory Allocation Tunables" in the manual of glibc, which ignores those that it does not know."""


class Needs(NamedTuple):
    """Secrets and settings that a service needs besides those that are not secret."""

    secrets: frozenset[str] = frozenset()
    outside: bool = False
    """True if it connects to object stores and services on other machines."""
    proxies: bool = False
    """True if it connects to services on other machines, but not to object stores."""
    connectors: bool = False
    """True if it opens sources, and so reads the secrets of connectors that other packages add."""
    consents: bool = False
    """True if people authorize sources with it, and so reads the secrets of these sources' OAuth clients."""
    dagster: bool = False
    """True if it opens Dagster's instance, whose tables are in our database."""


PIPELINE = Needs(
    frozenset({
        "postgres_url", "qdrant_api_key", "encryption_keys", "openai_api_key", "llm_api_key", "drive_token",
        "google_client_secret", "google_service_account_key", "slack_bot_token", "alert_webhook_url", "dagster_secret",
    }),
    outside=True,
    connectors=True,
    dagster=True,
)  # fmt: skip
SERVING = Needs(
    frozenset({
        "postgres_url", "qdrant_api_key", "encryption_keys", "openai_api_key", "llm_api_key", "google_client_secret",
        "google_service_account_key", "slack_bot_token", "slack_signing_secret", "oidc_providers", "secret_key", "metrics_token",
        "dagster_secret", "alert_webhook_url", "job_webhook_url", "job_webhook_secret", "smtp_url",
    }),
    outside=True,
    consents=True,
)  # fmt: skip

NEEDS: Mapping[str, Needs] = MappingProxyType(
    {
        "dagster-code": PIPELINE,
        "run-workers": PIPELINE,
        "dagster-webserver": Needs(frozenset({"dagster_secret"}), dagster=True),
        "dagster-daemon": Needs(dagster=True),
        "serving": SERVING,
        "slack-events": Needs(frozenset({"postgres_url", "qdrant_api_key", "slack_app_token"}), proxies=True),
    }
)
"""By service. The vector server and the simulators read no settings; see `bare_environment`."""


def child_environment(settings: Settings) -> dict[str, str]:
    """Return our environment plus every setting that is set, from any source, so that a child reads the same settings."""
    connectors, _ = _connectors(secrets=True)
    return (
        _outside_settings() | connectors | _given(settings, settings.model_fields_set) | _python() | _dagster(settings)
    )


def process_environment(settings: Settings, name: str) -> dict[str, str]:
    """Return the environment of a process that no supervisor starts: our own, with only those of our secrets that it uses.

    Variables that are not ours are passed on, since the platform that starts the process sets them for it.
    """
    ours = service_environment(settings, name)
    return {one: value for one, value in os.environ.items() if not one.startswith("CONCORDANCE_")} | ours


def service_environment(settings: Settings, name: str) -> dict[str, str]:
    """Return the environment of a service that reads the settings, with only those secrets that it uses."""
    needs = NEEDS[name]
    given = {one for one in settings.model_fields_set if getattr(settings, one) is not None}
    kept = (given & SECRETS) - needs.secrets
    connectors, held = _connectors(secrets=needs.connectors, clients=needs.consents)
    environment = _passed(RUN_NAMES, RUN_PREFIXES) | _given(settings, given - kept) | variable(kept | held) | _python()
    environment |= connectors
    if name == "serving":
        environment |= _passed({sample_people.VARIABLE}, ())
    if needs.outside:
        environment |= _passed(OUTSIDE_NAMES, OUTSIDE_PREFIXES)
    if needs.proxies:
        environment |= _passed(PROXY_NAMES, ())
    if needs.dagster:
        environment |= _dagster(settings)
    if settings.postgres_url is not None and (needs.dagster or "postgres_url" in needs.secrets):
        environment |= _passed((), ("PG",))  # libpq's own variables complete the URL of an external Postgres
    return environment


def bare_environment(settings: Settings, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program of ours that reads no settings, plus the variables in `more`."""
    return _passed(RUN_NAMES, RUN_PREFIXES) | _given(settings, ()) | _python() | dict(more or {})


def _connectors(*, secrets: bool, clients: bool = False) -> tuple[dict[str, str], frozenset[str]]:
    """Return the settings of connectors that other packages add, and the names of their secrets if these are left out.

    `clients` keeps the secrets of OAuth clients nevertheless.
    A connector whose settings are wrong is opened with them as they are, and its sync fails with a message that names them.
    """
    environment: dict[str, str] = {}
    held: set[str] = set()
    for spec in [spec for spec in specs() if spec.settings is not Settings]:
        kind, client = spec.settings, spec.connect.client if clients and spec.connect else ()
        prefix = kind.model_config.get("env_prefix", "")
        try:
            own = read(kind)
        except ConfigurationError:
            environment |= _passed((), (prefix,)) if secrets else {}
            continue
        for name in own.model_fields_set:
            value = getattr(own, name)
            if isinstance(value, SecretStr) and not secrets and name not in client:
                held.add(setting_name(prefix, name))
            elif value is not None:
                environment[f"{prefix}{name}".upper()] = _text(value)
    return environment, frozenset(held)


def _outside_settings() -> dict[str, str]:
    """Return our environment without the names of files with secrets, whose content is passed on instead."""
    files = {*secret_files.variables_of(Settings).values()}
    for spec in specs():
        files |= {*secret_files.variables_of(spec.settings).values()}
    return {name: value for name, value in os.environ.items() if name.upper() not in files}


def _passed(names: Collection[str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in names or name.startswith(prefixes)}


def _given(settings: Settings, names: Collection[str]) -> dict[str, str]:
    """Return settings as environment variables. HOME is always included, because it identifies our processes."""
    environment = variables.grouped({name: getattr(settings, name) for name in names})
    for name in {*names, "home"} - variables.NOT_ALONE:
        value = getattr(settings, name)
        if value is not None:
            environment[f"CONCORDANCE_{name.upper()}"] = _text(value)
    return environment


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, tuple):
        entries = cast("tuple[object, ...]", value)
        models = [one.model_dump_json(exclude_unset=True) for one in entries if isinstance(one, BaseModel)]
        return f"[{','.join(models)}]" if models else ",".join(map(str, entries))
    if isinstance(value, Path):
        return str(value.absolute())  # the child may run in another folder
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _python() -> dict[str, str]:
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    allocator = {name: os.environ.get(name, value) for name, value in ALLOCATOR.items()}
    return {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **allocator}


def _dagster(settings: Settings) -> dict[str, str]:
    return {
        "DAGSTER_HOME": str(settings.home / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        # Dagster stores an ID instead of the texts of unexpected errors, which may quote documents; the log has them under that ID.
        "DAGSTER_REDACT_USER_CODE_ERRORS": "1",
        # A backfill goes on after the code server was restarted, instead of failing because its assets could not be loaded for a minute.
        "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
        # Events are numbered before they are committed. A backfill that read only the events after the last one that it saw would miss
        # those committed out of order, and end as failed although its runs succeeded; it reads that many of the earlier ones again.
        "ASSET_BACKFILL_CURSOR_OFFSET": "1000",
        "CONCORDANCE_DAGSTER_POSTGRES_URL": _for_dagster(settings.dagster_dsn),
    }


def _for_dagster(dsn: str) -> str:
    """Return a URL with the driver that Dagster needs."""
    return urlunsplit(urlsplit(dsn)._replace(scheme="postgresql+psycopg2"))
