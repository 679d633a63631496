"""URLs and headers with secrets for `concordance status --urls`, for users who can already read `HOME/keys.json`."""

from collections.abc import Mapping

import msgspec

from orchestration.cli.output import say
from resources import dagster_access, keys
from resources.settings import Settings


class Address(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The URL and headers of a service. Links are for browsers, and each works once."""

    url: str
    headers: dict[str, str] = {}
    link: str | None = None
    read_only_headers: dict[str, str] = {}
    read_only_link: str | None = None


def addresses(settings: Settings) -> dict[str, Address]:
    """Return the addresses of the services by name."""
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
    if settings.dagster_url is not None and settings.dagster_secret is None:  # it may not have our sign-in
        return Address(url=settings.dagster_address, headers=headers)
    return Address(
        url=settings.dagster_address,
        headers=headers,
        link=dagster_access.link(settings),
        read_only_headers={"Authorization": f"Bearer {dagster_access.secrets_of(settings).viewer}"},
        read_only_link=dagster_access.link(settings, "viewer"),
    )


def say_addresses(found: Mapping[str, Address]) -> None:
    """Print addresses, headers and links."""
    for name, address in found.items():
        say(f"{name:<10} {address.url}")
        for title, headers, link in (
            ("", address.headers, address.link),
            ("read-only: ", address.read_only_headers, address.read_only_link),
        ):
            for header, value in headers.items():
                say(f"{'':<10} {title}{header}: {value}")
            if link is not None:
                say(f"{'':<10} {title}{link}")
    say("`concordance token EMAIL` prints a TOKEN. Each link opens Dagster in one browser, within 12 hours.")
