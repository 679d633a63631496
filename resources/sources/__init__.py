"""The sources of documents. `open_source` returns the connector for a source's name."""

from __future__ import annotations

import hashlib

from resources.core.domain import SourceName
from resources.core.ports import Memory, Source
from resources.settings import Settings

HOW_TO_SET_UP = {
    SourceName.GOOGLE_DRIVE: "Google Drive is not set up: set CONCORDANCE_GOOGLE_CLIENT_ID and connect an account, or set "
    "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE (docs/operations.md).",
    SourceName.SLACK: "Slack is not set up: set CONCORDANCE_SLACK_BOT_TOKEN (docs/operations.md).",
}


def configured(settings: Settings, name: SourceName) -> bool:
    """Return True if the settings configure the source."""
    if name is SourceName.GOOGLE_DRIVE:
        ways = (settings.drive_token, settings.google_client_id, settings.google_service_account_file)
        return any(way is not None for way in ways)
    return name is not SourceName.SLACK or settings.slack_bot_token is not None


def fingerprint(settings: Settings, name: SourceName) -> str:
    """Return a hash of the credentials in the settings: when it changes, a paused source is tried again."""
    parts: list[str] = []
    if name is SourceName.GOOGLE_DRIVE:
        token = settings.drive_token.get_secret_value() if settings.drive_token else ""
        file = settings.google_service_account_file
        parts = [token, settings.google_client_id or "", str(file or ""), settings.google_subject or ""]
        if file is not None and file.is_file():
            parts.append(str(file.stat().st_mtime_ns))
    elif name is SourceName.SLACK and settings.slack_bot_token is not None:
        parts = [settings.slack_bot_token.get_secret_value()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def open_source(settings: Settings, name: SourceName, memory: Memory | None = None) -> Source:
    """Return the connector of a source. Raises `ConfigurationError` if its settings are wrong."""
    if name is SourceName.FILES:
        from resources.sources.files import Files

        return Files(settings)
    if name is SourceName.UPLOAD:
        from resources.sources.uploads import Uploads
        from resources.stores.blobs import Blobs

        return Uploads(settings, Blobs(settings.lake_address))
    from resources.stores.memory import PostgresMemory

    memory = memory or PostgresMemory(settings.postgres_dsn)
    if name is SourceName.GOOGLE_DRIVE:
        from resources.sources.drive import Drive

        return Drive(settings, memory)
    from resources.sources.slack import Slack

    return Slack(settings, memory)
