"""Settings of the sources."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.settings.urls import HttpUrl, StoreUrl, http_url


class FileRoot(BaseModel):
    """One folder or bucket prefix that may be indexed; nothing outside the listed roots is ever read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    url: StoreUrl
    kind: Literal["files", "book"] = "files"
    tenant: str = Field(min_length=1)
    dataset: str = Field(min_length=1)
    permissions: tuple[str, ...] = ()
    owner: str | None = None
    base_url: HttpUrl | None = None
    profile: str | None = None
    tags: dict[str, Any] = Field(default_factory=dict)

    @field_validator("url")
    @classmethod
    def _without_slash(cls, url: str) -> str:
        return "file:///" if url == "file:///" else url.rstrip("/")

    @field_validator("permissions")
    @classmethod
    def _principals(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return permissions.normalize(names)
        except InvalidRequestError as error:
            raise ValueError(str(error)) from error

    @field_validator("owner")
    @classmethod
    def _person(cls, owner: str | None) -> str | None:
        try:
            return None if owner is None else permissions.email(owner)
        except InvalidRequestError as error:
            raise ValueError(str(error)) from error


class SourceSettings(BaseModel):
    """Files, uploads, Google Drive, Slack, and how often they are synced."""

    sync_minutes: Annotated[int, Field(ge=1, le=60)] = 10
    file_roots: Annotated[tuple[FileRoot, ...], NoDecode] = ()
    upload_share_domains: Annotated[tuple[str, ...], NoDecode] = ()
    """Domains beyond the uploader's own that uploads may be shared with; `public` lifts the limit."""
    drive_roots: Annotated[tuple[str, ...], NoDecode] = ()
    """my_drive, shared_drives, ids of shared drives or folders. Empty: My Drive and every shared drive."""
    drive_follow_shortcuts: bool = False
    drive_link_sharing: Literal["nobody", "opened", "domain"] = "nobody"
    """Who finds what is shared by link alone."""
    drive_labels: Annotated[dict[str, Literal["exclude", "no_model", "no_share"]], NoDecode] = {}
    """What labels do to the files that carry them, by their ids: leave the index, or stay away from outside language models or
    shared answers."""
    drive_users: Annotated[tuple[str, ...], NoDecode] = ()
    """Users whose My Drives are read by delegation: `*`, emails and patterns, each with `-` to leave out. Empty: the one account."""
    drive_token: SecretStr | None = None
    drive_api_url: str = "https://www.googleapis.com"
    google_client_id: str | None = None
    google_client_secret: SecretStr | None = None
    google_service_account_file: Path | None = None
    google_subject: str | None = None
    """Person in whose name the service account reads (domain-wide delegation)."""
    google_directory_api_url: str | None = None
    """Root of Google's Admin SDK. Unset: Google's, read only with a service account that has the scopes."""
    groups_file: Path | None = None
    """CSV file of groups and their members."""
    slack_bot_token: SecretStr | None = None
    slack_api_url: str = "https://slack.com/api"
    slack_signing_secret: SecretStr | None = None
    slack_app_token: SecretStr | None = None

    @field_validator("file_roots", mode="before")
    @classmethod
    def _read_roots(cls, value: Any) -> Any:
        return json_or_file(value)

    @field_validator(
        "drive_roots", "drive_users", "allowed_hosts", "upload_share_domains", mode="before", check_fields=False
    )
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("["):
            return _json(value)
        return [part.strip() for part in value.split(",") if part.strip()]

    @field_validator("drive_labels", mode="before")
    @classmethod
    def _read_object(cls, value: Any) -> Any:
        return (_json(value) if value.strip() else {}) if isinstance(value, str) else value

    @field_validator("drive_labels")
    @classmethod
    def _label_ids(cls, rules: dict[str, Any]) -> dict[str, Any]:
        for label in rules:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", label):
                raise ValueError(f"must name labels by their ids, not {label!r}")
        return rules

    @field_validator("drive_users")
    @classmethod
    def _patterns(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        found = tuple(one.strip().lower() for one in given)
        for one in found:
            if one.removeprefix("-") != "*" and one.count("@") != 1:
                raise ValueError(f"must be a comma list of *, emails or patterns such as -*@sales.example, not {one!r}")
        if found and all(one.startswith("-") for one in found):
            raise ValueError("must name whose drives are read, such as *, besides those that it leaves out")
        return found

    @field_validator("upload_share_domains")
    @classmethod
    def _plain_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(domain.lower().removeprefix("domain:") for domain in domains)
        for domain in plain:
            if "@" in domain or ":" in domain or ("." not in domain and domain != "public"):
                raise ValueError(f"must be a comma list of domains such as partner.example, or public; not {domain!r}")
        return plain

    @field_validator("drive_api_url", "google_directory_api_url", "slack_api_url")
    @classmethod
    def _without_slash(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url).rstrip("/")


def json_or_file(value: Any) -> Any:
    """Return the list in a variable that holds JSON, or `@path` of a file with it. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("@"):
        path = Path(text[1:]).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from error
    return _json(text) if text else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error}") from error
