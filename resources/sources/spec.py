"""Declaration of a source by its connector. Assets, jobs, schedules, status, links and filters follow from it.

A module that holds a `SourceSpec` is imported by every process, the HTTP service included, so it imports nothing heavy: `open`
imports the connector when a sync begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from resources.core.checks import Check
from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.core.ports import Memory, Source
from resources.settings import Settings, read
from resources.settings.variables import variable_of

if TYPE_CHECKING:
    from resources.stores.postgres import Connection


class Link(NamedTuple):
    """The document that an address leads to: its source id or, in Slack, a name or a moment in a partition. Empty if none is known."""

    source_id: str | None = None
    partition: str | None = None
    names: tuple[str, ...] = ()
    moment: datetime | None = None


class WaitingWork(NamedTuple):
    """Work that arrives between scheduled syncs, and the sensor that starts a sync for it."""

    sensor: str
    pending: Callable[[Connection], bool]
    """Return True if a sync has something to do now."""


class Scope(NamedTuple):
    """A permission that the credentials of a source need."""

    name: str
    purpose: str
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Documents and places that a source would read with credentials that are being tried."""

    account: str
    """Whom the credentials belong to."""
    granted: frozenset[str] | None = None
    """Scopes that the credentials have; None if the source does not say."""
    places: tuple[str, ...] = ()
    """Names of drives or channels that would be read."""
    documents: int | None = None
    """Documents that were counted; None if the source cannot count them."""
    size: int = 0
    """Bytes of these documents, as far as the source says."""
    complete: bool = True
    """False if there are more places or documents than were counted."""
    notes: tuple[str, ...] = ()
    """Limitations, each with what to do about it."""


class Place(NamedTuple):
    """A drive, folder or channel to choose."""

    id: str
    name: str
    opens: bool = False
    """True if it may contain further places."""
    readable: bool = True
    """False if the source must first let the credentials in."""


class Places(NamedTuple):
    """Places to choose from, by name."""

    found: tuple[Place, ...]
    complete: bool = True
    """False if there are more."""


class Trial(NamedTuple):
    """Test of credentials before they are set."""

    fields: tuple[str, ...]
    """Fields of `settings` that may be given."""
    run: Callable[[Settings, Mapping[str, str]], Reach]
    """Return what the source would read with these values, or with the configured credentials if none is among them. Asks only the
    address in the settings, stores nothing, and takes at most half a minute. Raises `ConcordanceError`, whose message never contains
    a value."""
    browse: Callable[[Settings, Mapping[str, str], str | None], Places] | None = None
    """Return the places directly inside the one with this id, or the top ones without it, under the same rules."""


class ConsentError(ConcordanceError):
    """The source was not authorized; the message says why and what to do. `status` is the HTTP status of the page that shows it."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class ConsentGrant(NamedTuple):
    """What a person granted: to read as this account, with this refresh token."""

    account: str
    refresh_token: str
    scopes: list[str]


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Authorization of the source by a person: OAuth 2.0 with PKCE. `/api/auth/PROVIDER` leads to the provider's consent page, and
    `/api/auth/PROVIDER/callback` is the redirect URI. `resources.stores.credentials` returns the refresh token."""

    provider: str
    """Name of the provider in addresses and of its tokens, such as `google`."""
    label: str
    """Name shown to people."""
    client: tuple[str, str]
    """Fields of `settings`: the id of the OAuth client, and its secret, a `SecretStr`."""
    scopes: tuple[str, ...]
    endpoints: Callable[[Settings], tuple[str, str]]
    """Return the addresses of the consent page and of the token endpoint."""
    granted: Callable[[Settings, Mapping[str, Any]], ConsentGrant]
    """Return what the token endpoint's answer grants. Blocking. Raises `ConsentError`."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further parameters of the consent page."""
    command: str | None = None
    """The command that prints the address of the consent page."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    change_feed: bool = False
    """Later syncs ask for changes alone, instead of listing everything."""
    keyed_listing: bool = False
    """A listing shows everything each time; documents whose key is known (`Source.known_keys`) are left out of it."""
    events: bool = False
    """The source reports changes as they happen; they are stored as events, and a sensor starts a sync for them."""
    private_folders: bool = True
    """Folders have readers of their own: whoever may not know them sees only the file's name. False: documents share the readers of their
    collection, and every reader sees the path and the collection."""
    named_by_path: bool = False
    """Source ids and addresses contain the path: whoever may not know all folders of a document sees neither, and finds nothing by them."""
    own_permissions: bool = False
    """Permissions are kept in the registry itself, so they are never too old to be trusted."""
    stored_size: bool = False
    """The size that the source reports is the number of bytes that are stored, so that a shorter copy is known to be damaged."""
    user_supplied: bool = False
    """Users hand documents in and may change them at any time, so nothing is reused among documents of different users."""
    chosen_users: bool = False
    """Only users chosen for it hand documents in, under names of sources: citations name the collection, not the source."""

    @property
    def by_anyone(self) -> bool:
        """Anyone may hand documents in: citations name the owner, and other users' documents rank lower."""
        return self.user_supplied and not self.chosen_users


UNDECLARED = Capabilities(named_by_path=True)
"""What is assumed of a source that no installed package declares: the least that may be shown."""


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """Declaration of a source. Register it in the entry-point group `concordance.sources`, under its name."""

    name: SourceName
    label: str
    """Name shown to people."""
    open: Callable[[Settings, Memory], Source]
    """Return the connector. Raises `ConfigurationError` if its settings are wrong."""
    help: str
    """Says that the source is not set up, and how to set it up."""
    settings: type[BaseSettings] = Settings
    """Class that declares the connector's settings; one of its own has the prefix `CONCORDANCE_NAME_`."""
    needs: tuple[str, ...] = ()
    """Fields of `settings`: the source is set up once any of them is given. Empty: it always is."""
    credentials: tuple[str, ...] = ()
    """Fields of `settings`: a source that is paused because it refused our credentials is tried again when one of them changes."""
    capabilities: Capabilities = Capabilities()
    aliases: tuple[str, ...] = ()
    """Other names that people may use in commands, routes and filters."""
    link: Callable[[SplitResult], Link | None] | None = None
    """Return what an address of the source leads to; None if the address is not the source's."""
    place: Callable[[str, str], str] | None = None
    """Return the address of a passage, from its document's address and its anchor. None: the document's address."""
    unit: tuple[str, str] = ("folder", "folders")
    """What its partitions are called: one, and several."""
    waiting: WaitingWork | None = None
    scopes: tuple[Scope, ...] = ()
    trial: Trial | None = None
    connect: Consent | None = None
    """None: no one's consent is needed, the settings hold all credentials."""
    set_up: Path | None = None
    """Jinja template of the steps on its set-up page, which extends `set_up/steps.html`. None: the page shows `help`."""
    checks: Callable[[Settings, bool], Iterator[Check]] | None = None
    """Yield findings for `concordance doctor`; the second argument is True while Concordance is running."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a declaration that names settings which do not exist or belong to others."""
        prefix = f"CONCORDANCE_{self.name.upper()}_"
        if self.settings is not Settings and self.settings.model_config.get("env_prefix") != prefix:
            raise ValueError(f"{self.settings.__name__} must have the env_prefix {prefix}")
        unknown = {
            *self.needs,
            *self.credentials,
            *(self.trial.fields if self.trial else ()),
            *(self.connect.client if self.connect else ()),
        } - self.settings.model_fields.keys()
        if unknown:
            raise ValueError(f"{self.settings.__name__} has no field {', '.join(sorted(unknown))}")

    def configured(self, settings: Settings) -> bool:
        """Return True if the source is set up. Wrong settings count: the sync fails with a message that names them."""
        try:
            own = self.own_settings(settings)
        except ConfigurationError:
            return True
        return not self.needs or any(getattr(own, name) is not None for name in self.needs)

    def fingerprint(self, settings: Settings) -> str:
        own = self.own_settings(settings) if self.credentials else settings
        parts = "\0".join(_text(getattr(own, name)) for name in self.credentials)
        return hashlib.sha256(parts.encode()).hexdigest()

    def variable(self, field: str) -> str:
        """Return the variable that sets a field of `settings`."""
        return variable_of(field) if self.settings is Settings else f"CONCORDANCE_{self.name}_{field}".upper()

    def own_settings(self, settings: Settings) -> BaseSettings:
        """Return the connector's settings. Raises `ConfigurationError`."""
        return settings if self.settings is Settings else read(self.settings)


def _text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path) and value.is_file():
        return f"{value}\0{value.stat().st_mtime_ns}"
    return "" if value is None else str(value)
