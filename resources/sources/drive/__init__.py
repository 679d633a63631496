"""Declaration of the source `google_drive`. The connector is in `source`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs

from resources.core.domain import SourceName
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.spec import (
    Capabilities,
    Check,
    Consent,
    ConsentGrant,
    Link,
    Places,
    Reach,
    Scope,
    SourceSpec,
    Trial,
)

READ = "https://www.googleapis.com/auth/drive.readonly"
"""Read-only: listing, changes, permissions and content. Source: https://developers.google.com/workspace/drive/api/guides/api-specific-auth"""
_PATH = re.compile(r"/(?:d|folders)/([A-Za-z0-9_-]+)")


def _open(settings: Settings, memory: Memory) -> Source:
    from resources.sources.drive.source import Drive

    return Drive(settings, memory)


def _link(parts: SplitResult) -> Link | None:
    host = (parts.hostname or "").lower()
    if host != "google.com" and not host.endswith(".google.com"):
        return None
    named = _PATH.search(parts.path)
    return Link(source_id=named[1] if named else next(iter(parse_qs(parts.query).get("id", [])), None))


def _checks(settings: Settings, running: bool) -> Iterator[Check]:
    if running or not settings.embedded_postgres:
        from resources.sources.drive.checks import checks

        yield from checks(settings)


def _try(settings: Settings, values: Mapping[str, str]) -> Reach:
    from resources.sources.drive.trial import reach

    return reach(settings, values)


def _browse(settings: Settings, values: Mapping[str, str], inside: str | None) -> Places:
    from resources.sources.drive.trial import places

    return places(settings, values, inside)


def _endpoints(settings: Settings) -> tuple[str, str]:
    from resources.sources.drive.consent import endpoints

    return endpoints(settings)


def _granted(settings: Settings, tokens: Mapping[str, Any]) -> ConsentGrant:
    from resources.sources.drive.consent import granted

    return granted(settings, tokens)


SPEC = SourceSpec(
    name=SourceName.GOOGLE_DRIVE,
    label="Google Drive",
    unit=("drive or folder", "drives and folders"),
    open=_open,
    help="Google Drive is not set up: set CONCORDANCE_GOOGLE_CLIENT_ID and connect an account, or set "
    "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE (docs/drive.md).",
    needs=("drive_token", "google_client_id", "google_service_account_file", "google_service_account_key"),
    credentials=(
        "drive_token",
        "google_service_account_file",
        "google_service_account_key",
        "google_client_id",
        "google_subject",
    ),
    capabilities=Capabilities(change_feed=True, events=True),
    link=_link,
    checks=_checks,
    scopes=(Scope(READ, "files, their contents and their permissions"),),
    trial=Trial(
        ("google_service_account_key", "google_subject", "google_client_id", "google_client_secret", "drive_roots"),
        _try,
        _browse,
    ),
    connect=Consent(
        provider="google",
        label="Google",
        client=("google_client_id", "google_client_secret"),
        scopes=("openid", "email", READ),
        # without `consent`, Google issues no refresh token to a user who consented before
        parameters={"access_type": "offline", "prompt": "select_account consent"},
        endpoints=_endpoints,
        granted=_granted,
        command="concordance connect google",
    ),
    set_up=Path(__file__).with_name("set_up.html"),
)
