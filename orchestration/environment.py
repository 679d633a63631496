"""What a service sees of our settings: its environment, and addresses fit to be shown.

Enter: settings, wherever each came from. Leave: environment variables from which a child reads the very same settings.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from resources.migrate import DAGSTER_SCHEMA
from resources.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def child_environment(settings: Settings) -> dict[str, str]:
    """Return our environment plus every setting that was given, from wherever: a child reads the same settings as we."""
    environment = dict(os.environ)
    for name in settings.model_fields_set | {"home"}:
        value = getattr(settings, name)
        if name == "file_roots":
            text = "[" + ",".join(root.model_dump_json(exclude_unset=True) for root in settings.file_roots) + "]"
        elif isinstance(value, tuple):
            text = ",".join(str(part) for part in value)
        elif isinstance(value, SecretStr):
            text = value.get_secret_value()
        else:
            text = "" if value is None else str(value)
        if value is not None:
            environment[f"CONCORDANCE_{name.upper()}"] = text
    environment["DAGSTER_HOME"] = str(settings.home / "dagster")
    environment["DAGSTER_DISABLE_TELEMETRY"] = "1"
    environment["CONCORDANCE_DAGSTER_POSTGRES_URL"] = dagster_storage_url(settings.postgres_dsn)
    environment["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def dagster_storage_url(dsn: str) -> str:
    """Return the URL of Dagster's tables in our database: psycopg 2, in a schema of their own."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    query["options"] = f"{query.get('options', '')} -csearch_path={DAGSTER_SCHEMA}".strip()
    return urlunsplit(("postgresql+psycopg2", parts.netloc, parts.path, urlencode(query, quote_via=quote), ""))


def without_password(url: str) -> str:
    """Return a URL fit to be shown: no user, no password, no query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
