"""Settings of the sources."""

import re
import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.settings.urls import HttpUrl, StoreUrl, http_url
from resources.settings.values import Duration, Words, json_or_file, json_value, words


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
    """Files, Google Drive, Slack, how often they are synced, and how long their permissions count."""

    sync_minutes: Annotated[int, Field(ge=1, le=60)] = 10
    acl_max_age: Duration = "24h"
    """Hits whose permissions were last checked longer ago than this are held back."""
    file_roots: Annotated[tuple[FileRoot, ...], NoDecode] = ()
    drive_roots: Words = ()
    """my_drive, shared_drives, shared_with_me, ids of shared drives or folders. Empty: My Drive and every shared drive."""
    drive_token: SecretStr | None = None
    drive_api_url: str = "https://www.googleapis.com"
    google_client_id: str | None = None
    google_client_secret: SecretStr | None = None
    google_service_account_file: Path | None = None
    google_service_account_key: SecretStr | None = None
    """Content of the key file, in place of its path."""
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

    @property
    def reads_as_service_account(self) -> bool:
        """True if Google Drive is read by a service account: then no person's consent is needed."""
        return self.google_service_account_file is not None or self.google_service_account_key is not None

    @field_validator("file_roots", mode="before")
    @classmethod
    def _read_roots(cls, value: Any) -> Any:
        return json_or_file(value)

    @field_validator("drive_api_url", "google_directory_api_url", "slack_api_url")
    @classmethod
    def _without_slash(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url).rstrip("/")


class DriveSettings(BaseModel):
    """Scope of what is read from Google Drive, and who finds it."""

    drive_comments: bool = False
    """Whether open comments on Docs are read as a part of their text."""
    drive_follow_shortcuts: bool = False
    drive_link_sharing: Literal["nobody", "opened", "domain"] = "nobody"
    """Who finds what is shared by link alone."""
    drive_labels: Annotated[dict[str, Literal["exclude", "no_model", "no_share"]], NoDecode] = {}
    """What labels do to the files that carry them, by their ids: leave the index, or stay away from outside language models or
    shared answers."""
    drive_users: Words = ()
    """Users whose My Drives are read by delegation: `*`, emails and patterns, each with `-` to leave out. Empty: the one account."""

    @field_validator("drive_labels", mode="before")
    @classmethod
    def _read_labels(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith(("{", "[")):
            return json_value(value)
        rules = [_rule(word) for word in words(value)]
        labels = [label for label, _ in rules]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"must name each label once, not {twice[0]!r} twice")
        return dict(rules)

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
        found = tuple(unicodedata.normalize("NFC", one.strip().lower()) for one in given)  # as addresses are compared
        for one in found:
            if one.removeprefix("-") != "*" and one.count("@") != 1:
                raise ValueError(f"must list *, emails or patterns such as -*@sales.example, not {one!r}")
        if found and all(one.startswith("-") for one in found):
            raise ValueError("must include someone, for example *; exclusions alone select nobody")
        return found


def _rule(word: str) -> tuple[str, str]:
    label, colon, rule = word.partition(":")
    if not colon:
        raise ValueError(f"must list labels with what they do, such as LABEL_ID:exclude, not {word!r}")
    return label, rule
