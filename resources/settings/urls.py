"""Addresses in settings: checked by their form, so that a mistake is named before anything starts."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, SecretStr

_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
BUCKETS = ("s3", "az", "azure", "abfs", "abfss", "gs")


def http_url(url: str) -> str:
    """Return the URL. Raises `ValueError` if it is not one of a web service."""
    parts = _parts(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"must be a URL such as https://service.example.com or http://127.0.0.1:8000, not {url!r}")
    return url


def site_url(url: str) -> str:
    """Return the URL of a site that has its host name to itself. Raises `ValueError` if it has a path, a query or a user."""
    parts = urlsplit(http_url(url))
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"must be the root of a site, such as https://search.example.com, not {without_password(url)!r}: pages are not served "
            "below a path"
        )
    return url


def web_origin(origin: str) -> str:
    """Return the origin of web pages. Raises `ValueError` if it is not one as browsers send it."""
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(f"{origin!r} is not an origin; write https://HOST or https://HOST:PORT, without a path")
    return origin


def check_secret_http_url(url: SecretStr) -> None:
    """Raise `ValueError`, without the URL, if it is not one of a web service."""
    try:
        http_url(url.get_secret_value())
    except ValueError:
        raise ValueError("must be a URL that begins with https:// or http://") from None


def check_postgres_url(url: SecretStr) -> None:
    """Raise `ValueError`, without the URL, if it is not one of a Postgres database."""
    parts = _parts(url.get_secret_value())
    if parts is None or parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError(
            "must have the form postgresql://user:password@host:5432/database; in the password, write @, / and # "
            "as %40, %2F and %23"
        )


def store_url(url: str) -> str:
    """Return the URL of a folder or bucket. Raises `ValueError` if it is neither."""
    parts = _parts(url)
    if " " in url:
        raise ValueError(f"must have no spaces: write each as %20, not {url!r}")
    if parts is not None and parts.scheme == "file":
        local_folder(url)
    elif parts is None or parts.scheme not in BUCKETS or not parts.netloc:
        raise ValueError(f"must be file:///absolute/path, s3://bucket/prefix, az://… or gs://…, not {url!r}")
    return url


def local_folder(url: str) -> Path:
    """Return the folder that a `file://` URL names. Raises `ValueError` if it names none on this machine."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.netloc not in {"", "localhost"} or not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{url!r} is not an absolute path on this machine; write file:///srv/handbook, without '..'")
    return path


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it has a part that no URL can have."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return None if any(character.isspace() for character in url) else parts


HttpUrl = Annotated[str, AfterValidator(http_url)]
SiteUrl = Annotated[str, AfterValidator(site_url)]
WebOrigin = Annotated[str, AfterValidator(web_origin)]
StoreUrl = Annotated[str, AfterValidator(store_url)]


def without_password(url: str) -> str:
    """Return a URL without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_local(host: str) -> bool:
    """Return True for a loopback address and for `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
