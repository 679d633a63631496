"""Settings of the service itself: its folder, its addresses, its keys, its logs."""

import base64
import json
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from resources.core import permissions
from resources.core.cores import cores
from resources.core.domain import Role
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list, is_object
from resources.settings.urls import SiteUrl, WebOrigin, check_secret_http_url
from resources.settings.values import Words, words
from resources.withheld import Withheld

MOST_WORKERS = 64
ROLES_EXAMPLE = '{"administrator": ["group:it@acme.com"], "auditor": ["ada@acme.com"]}'
Port = Annotated[int, Field(ge=1, le=65535)]


class ServiceSettings(BaseModel):
    """Place, addresses, keys and logs."""

    home: Path = Path(".concordance")
    """Folder of all state: databases, lake, keys, logs."""
    http_port: Port = 8080
    serving_workers: Annotated[int, Field(ge=1, le=MOST_WORKERS, default_factory=lambda: min(2, cores()))]
    """Processes of the HTTP service: by default two, so that one is left if one ends, or one on a single core."""
    public_url: SiteUrl | None = None
    """Address that people use; links in citations start with it."""
    secret_key: SecretStr | None = None
    """Comma list of keys: the first signs access tokens, the rest verify tokens signed before a rotation."""
    encryption_keys: SecretStr | None = None
    """Comma list of Fernet keys; the first encrypts secrets at rest, the rest decrypt."""
    metrics_token: SecretStr | None = None
    roles: Annotated[Mapping[Role, tuple[str, ...]], NoDecode] = {}
    """Emails and groups (`group:NAME@DOMAIN`) of the people who have each role."""
    alert_webhook_url: SecretStr | None = None
    job_webhook_secret: SecretStr | None = None
    """Signs what is posted to `job_webhook_url`: `whsec_` and at least 24 random bytes in base64."""
    job_webhook_url: SecretStr | None = None
    """Gets a signed request for each sync that has ended."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("home", mode="before")
    @classmethod
    def _named_home(cls, home: object) -> object:
        if isinstance(home, str) and not home.strip():
            raise ValueError("must name a folder")
        return home

    @field_validator("home")
    @classmethod
    def _absolute_home(cls, home: Path) -> Path:
        return home.expanduser().resolve()

    @field_validator("encryption_keys")
    @classmethod
    def _at_least_one(cls, keys: SecretStr | None) -> SecretStr | None:
        if keys is not None and not isinstance(keys, Withheld) and not keys.get_secret_value().strip(" ,"):
            raise ValueError("is empty: give at least one key, or unset it")
        return keys

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key is None or isinstance(key, Withheld):
            return key
        keys = [one.strip() for one in key.get_secret_value().split(",") if one.strip()]
        if not keys or min(map(len, keys)) < 32:
            raise ValueError(
                "must have at least 32 characters; make one with: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )
        return key

    @field_validator("alert_webhook_url", "job_webhook_url")
    @classmethod
    def _of_a_service(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not isinstance(url, Withheld):  # `up` has checked it
            check_secret_http_url(url)
        return url

    @field_validator("job_webhook_url")
    @classmethod
    def _signed(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if url is not None and "job_webhook_secret" in info.data and info.data["job_webhook_secret"] is None:
            raise ValueError("needs CONCORDANCE_JOB_WEBHOOK_SECRET, which signs what is sent")
        return url

    @field_validator("job_webhook_secret")
    @classmethod
    def _random_enough(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is None or isinstance(secret, Withheld):
            return secret
        prefix, _, encoded = secret.get_secret_value().partition("_")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            key = b""
        if prefix != "whsec" or not 24 <= len(key) <= 64:
            raise ValueError(
                "must be whsec_ and 24 to 64 bytes in base64; make one with: "
                "python -c 'import base64, secrets; print(\"whsec_\" + base64.b64encode(secrets.token_bytes(32)).decode())'"
            )
        return secret

    @field_validator("roles", mode="before")
    @classmethod
    def _holders(cls, value: Any) -> Any:
        given: Any = value
        if isinstance(value, str):
            try:
                given = json.loads(value) if value.strip() else {}
            except json.JSONDecodeError as error:
                raise ValueError(f"is not valid JSON: {error}") from error
        if not is_object(given):
            raise ValueError(f"must be a JSON object of lists such as {ROLES_EXAMPLE}")
        return {_role(name): tuple(_holder(one) for one in _list(name, names)) for name, names in given.items()}

    @property
    def base_url(self) -> str:
        """Address people reach the HTTP interface at, without a trailing slash."""
        return (self.public_url or f"http://127.0.0.1:{self.http_port}").rstrip("/")


class HttpSettings(BaseModel):
    """Access to the HTTP interface: addresses, proxies and origins."""

    http_host: str = "127.0.0.1"
    http_internal_url: SiteUrl | None = None
    """Address at which other processes of ours reach the HTTP interface. Unset: the port above on this machine."""
    allowed_hosts: Words = ()
    """Further host names. Those of `public_url` and `http_host`, and loopback names, are always allowed."""
    trusted_proxies: Words = ("127.0.0.1", "::1")
    """Addresses and networks of reverse proxies, whose X-Forwarded-For names the client."""
    cors_origins: Annotated[tuple[WebOrigin, ...], NoDecode, BeforeValidator(words)] = ()
    """Origins whose pages may call the HTTP interface from a browser."""
    dagster_public_url: WebOrigin | None = None
    """Address at which people's browsers reach Dagster's webserver, through a reverse proxy."""
    dagster_code_address: Annotated[str, Field(pattern=r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")] = (
        "127.0.0.1:4000"
    )
    """Host and port of the code server that `concordance code` runs; `up` uses a Unix socket instead."""

    @field_validator("http_host")
    @classmethod
    def _of_a_machine(cls, host: str) -> str:
        """Refuse URLs, ports, and an empty name, which would open the interface to the network."""
        if not _is_host(host):
            raise ValueError("must be an address such as 0.0.0.0 or a host name, without a port")
        return host

    @field_validator("allowed_hosts")
    @classmethod
    def _host_names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not _is_host(host):
                raise ValueError(f"must list host names such as kb.acme.com, without https:// and a port, not {host}")
        return hosts

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy, strict=False)
            except ValueError as error:
                raise ValueError(f"must list addresses and networks such as 10.0.0.0/8: {error}") from error
        return proxies

    @field_validator("dagster_public_url", mode="before")
    @classmethod
    def _without_slash(cls, url: Any) -> Any:
        return url.rstrip("/") if isinstance(url, str) else url


def _is_host(name: str) -> bool:
    if re.fullmatch(r"[\w.-]+", name):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        raise ValueError(f"{name!r} is not one of {', '.join(Role)}") from None


def _list(name: str, names: Any) -> list[Any]:
    if not is_list(names):
        raise ValueError(f"{name}: must be a list of emails and groups (group:NAME@DOMAIN)")
    return names


def _holder(text: Any) -> str:
    """Return an email or group in normal form: a role is never given to everyone or to a whole domain or workspace."""
    try:
        principal = permissions.principal(str(text))
    except InvalidRequestError as error:
        raise ValueError(str(error)) from error
    if "@" not in principal:
        raise ValueError(f"{text!r} is not an email or a group (group:NAME@DOMAIN); roles are given to these only")
    return principal
