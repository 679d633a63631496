"""The source `kinto`: records of the collections of a Kinto bucket, with the permissions that Kinto gives on them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.core.ports import Memory, Source
from resources.settings import Settings, read
from resources.sources.spec import Capabilities, Link, SourceSpec

NAME = SourceName("kinto")
_RECORD = re.compile(r"/buckets/([^/]+)/collections/([^/]+)/records/([^/]+)/?")


class KintoSettings(BaseSettings):
    """Settings of the connector."""

    model_config = SettingsConfigDict(env_prefix="CONCORDANCE_KINTO_", env_file=".env", frozen=True, extra="ignore")

    url: str | None = Field(None, description="Root of the server's interface, such as https://kinto.acme.com/v1.")
    bucket: str = Field("main", description="The bucket whose collections are indexed.")
    user: str = Field(
        "concordance", description="Account that may write the bucket: Kinto shows permissions to writers only."
    )
    password: SecretStr = Field(SecretStr(""), description="Password of that account.")


def _open(settings: Settings, memory: Memory) -> Source:  # noqa: ARG001 - its cursors hold all that it needs
    from concordance_kinto.source import Kinto

    return Kinto(settings, read(KintoSettings))


def _link(parts: SplitResult) -> Link | None:
    try:
        root = urlsplit(read(KintoSettings).url or "")
    except ConfigurationError:
        return None
    if not root.netloc or parts.netloc != root.netloc:
        return None
    found = _RECORD.fullmatch(parts.path.removeprefix(root.path.rstrip("/")))
    return Link(source_id="/".join(found.groups())) if found else Link()


SPEC = SourceSpec(
    name=NAME,
    label="Kinto",
    unit=("collection", "collections"),
    open=_open,
    help="Kinto is not set up: set CONCORDANCE_KINTO_URL, CONCORDANCE_KINTO_USER and CONCORDANCE_KINTO_PASSWORD.",
    settings=KintoSettings,
    needs=("url",),
    credentials=("url", "user", "password"),
    capabilities=Capabilities(change_feed=True),
    link=_link,
)
