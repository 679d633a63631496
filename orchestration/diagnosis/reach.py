"""Ask each service that a setting names, within seconds: Postgres, Qdrant, the lake, the embedding service, the language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from orchestration.diagnosis import network
from resources.core.checks import Check, wrong
from resources.core.errors import ConcordanceError
from resources.settings import Settings
from resources.settings.urls import local_folder
from resources.stores import disk

SECONDS = 5.0
"""Longest wait for a service; the object store of the lake has 20 seconds."""


Asks = Callable[[Settings], Iterator[Check]]


def examine(settings: Settings) -> list[Check]:
    """Return a fault for each service that the settings name and that does not respond as it should."""

    def faults(check: Asks) -> list[Check]:
        return list(check(settings))

    with ThreadPoolExecutor(len(CHECKS)) as pool:
        return [fault for found in pool.map(faults, CHECKS) for fault in found]


def _postgres(settings: Settings) -> Iterator[Check]:
    import psycopg

    if settings.postgres_url is None:
        return
    setting, remedy = (
        "CONCORDANCE_POSTGRES_URL",
        "Start that server, or correct host, port, user, password and database.",
    )
    try:
        with psycopg.connect(settings.postgres_dsn, connect_timeout=int(SECONDS)) as connection:
            row = connection.execute(
                "SELECT to_regclass('schema_migrations') IS NOT NULL OR has_database_privilege(current_database(), 'CREATE')"
            ).fetchone()
    except psycopg.Error as error:
        why = str(error).strip().splitlines()[0].strip()
        yield wrong("postgres", setting, f"the database does not respond ({why})", remedy, stops=True)
        return
    if row is None or not row[0]:
        what = "its user may not create schemas in this database"
        yield wrong("postgres", setting, what, "Run there: GRANT CREATE ON DATABASE … TO …", stops=True)


def _qdrant(settings: Settings) -> Iterator[Check]:
    if settings.qdrant_url is None:
        return
    key = settings.qdrant_api_key
    headers = {"api-key": key.get_secret_value()} if key is not None else {}
    yield from _asked(
        "qdrant",
        "CONCORDANCE_QDRANT_URL",
        "CONCORDANCE_QDRANT_API_KEY",
        f"{settings.qdrant_address}/collections",
        headers,
    )


def _embedder(settings: Settings) -> Iterator[Check]:
    if settings.embedding_provider == "openai":
        key = settings.openai_api_key
        yield from _model(
            "embedder", "OPENAI", settings.openai_base_url, None if key is None else key.get_secret_value()
        )


def _language_model(settings: Settings) -> Iterator[Check]:
    if settings.llm_model is not None:
        key = settings.llm_api_key
        yield from _model(
            "language model", "LLM", settings.llm_base_url, None if key is None else key.get_secret_value()
        )


def _model(part: str, prefix: str, base: str, key: str | None) -> Iterator[Check]:
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    address = f"{base.rstrip('/')}/models"
    yield from _asked(part, f"CONCORDANCE_{prefix}_BASE_URL", f"CONCORDANCE_{prefix}_API_KEY", address, headers)


def _asked(
    part: str, setting: str, key: str, address: str, headers: dict[str, str], *, own: bool = False
) -> Iterator[Check]:
    """Yield a fault unless something responds at the address and takes the key. Not every service serves this route: 404 is a response."""
    import httpx

    from resources import http_clients

    try:
        with http_clients.own(timeout=SECONDS) if own else http_clients.outward(timeout=SECONDS) as http:
            status = http.get(address, headers=headers).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        host = httpx.URL(address).netloc.decode()
        yield wrong(
            part,
            setting,
            f"nothing responds at {host} ({error})",
            "Start that service, or correct the URL.",
        )
        return
    if status in {401, 403}:
        yield wrong(
            part, key, f"the service of {setting} refuses it (status {status})", "Set the key that the service expects."
        )
    elif status >= 500:
        yield wrong(part, setting, f"the service responds with status {status}", "See its log, or correct the URL.")


def _lake(settings: Settings) -> Iterator[Check]:
    from resources.stores.blobs import Blobs

    if settings.lake_url is None:
        return
    setting = "CONCORDANCE_LAKE_URL"
    if settings.lake_url.startswith("file:"):
        folder = disk.nearest(local_folder(settings.lake_url))
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            yield wrong(
                "lake",
                setting,
                f"{folder} is not a writable folder",
                "Correct the path, or let our account write to it.",
            )
        return
    try:
        Blobs(settings.lake_address).exists("0" * 64)
    except ConcordanceError as error:
        remedy = "Correct the URL, or the credentials of the store in the environment (docs/configuration.md)."
        yield wrong("lake", setting, str(error).rstrip("."), remedy)


def _proxies(_settings: Settings) -> Iterator[Check]:
    yield from network.reachable(SECONDS)


def _dagster(settings: Settings) -> Iterator[Check]:
    if settings.dagster_url is None:
        return
    secret = settings.dagster_secret
    headers = {"Authorization": f"Bearer {secret.get_secret_value()}"} if secret is not None else {}
    address = f"{settings.dagster_address}/server_info"
    yield from _asked("dagster", "CONCORDANCE_DAGSTER_URL", "CONCORDANCE_DAGSTER_SECRET", address, headers, own=True)


CHECKS: tuple[Asks, ...] = (
    _postgres,
    _qdrant,
    _lake,
    _embedder,
    _language_model,
    _dagster,
    _proxies,
)
