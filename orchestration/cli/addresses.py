"""What tools need to reach the services of an installation: complete addresses and headers, secrets included.

Enter: settings and the keys in HOME. Leave: what `concordance status --urls` prints. It is printed for the person who may read
`HOME/keys.json` already, and only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchestration.cli.output import say
from resources import dagster_access, keys
from resources.settings import Settings


class Address(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One service as a tool addresses it. Links are for browsers; each opens once."""

    url: str
    headers: dict[str, str] = {}
    link: str | None = None
    read_only_headers: dict[str, str] = {}
    read_only_link: str | None = None


def addresses(settings: Settings) -> dict[str, Address]:
    """Return the services that tools speak to, by name."""
    key = keys.qdrant_api_key(settings)
    return {
        "http": Address(url=settings.base_url, headers={"Authorization": "Bearer TOKEN"}),
        "metrics": Address(
            url=f"{settings.base_url}/metrics", headers={"Authorization": f"Bearer {keys.metrics_token(settings)}"}
        ),
        "dagster": _dagster(settings),
        "qdrant": Address(url=settings.qdrant_address, headers={"api-key": key} if key else {}),
        "postgres": Address(url=settings.postgres_dsn),
    }


def _dagster(settings: Settings) -> Address:
    headers = dagster_access.headers(settings)
    if settings.dagster_url is not None:  # whether it has a sign-in like ours is not known
        return Address(url=settings.dagster_address, headers=headers)
    return Address(
        url=settings.dagster_address,
        headers=headers,
        link=dagster_access.link(settings),
        read_only_headers={"Authorization": f"Bearer {dagster_access.secrets_of(settings).viewer}"},
        read_only_link=dagster_access.link(settings, "viewer"),
    )


def say_addresses(found: Mapping[str, Address]) -> None:
    """Print them for a person."""
    for name, address in found.items():
        say(f"{name:<10} {address.url}")
        for title, headers, link in (
            ("", address.headers, address.link),
            ("to read: ", address.read_only_headers, address.read_only_link),
        ):
            for header, value in headers.items():
                say(f"{'':<10} {title}{header}: {value}")
            if link is not None:
                say(f"{'':<10} {title}{link}")
    say("TOKEN is what `concordance token EMAIL` prints. Each link opens Dagster in one browser, within 12 hours.")
