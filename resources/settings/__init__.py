"""Every setting of the platform: read from the environment (prefix `CONCORDANCE_`) and `.env`, validated once, then frozen.

`load()` is the only place that reads the environment, and nothing here opens a connection. `docs/configuration.md` describes each
setting, by the same groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from resources.core.errors import ConfigurationError
from resources.settings import variables
from resources.settings.database import DatabaseSettings
from resources.settings.limits import MAX_UPLOAD_BYTES, FixedFigures, LimitSettings, RetentionSettings
from resources.settings.mail import MailSettings, check_mail
from resources.settings.messages import message
from resources.settings.ports import chosen
from resources.settings.search import BUNDLED_MODEL, AnswerSettings, EmbeddingSettings, IndexSettings, SearchSettings
from resources.settings.secret_files import read_files
from resources.settings.service import HttpSettings
from resources.settings.sign_in import OidcProvider, SignInSettings
from resources.settings.sources import DriveSettings, FileRoot, SourceSettings
from resources.settings.widgets import Widget, WidgetSettings
from resources.withheld import Withheld, withheld

_ENTRIES = {"file_roots": "root", "widgets": "widget"}
"""What an entry of a list is called in messages."""
_IN_HEADERS = (
    "dagster_secret", "drive_token", "llm_api_key", "metrics_token", "openai_api_key", "qdrant_api_key", "slack_app_token",
    "slack_bot_token",
)  # fmt: skip
"""Secrets that are sent in a header, which carries no character beyond ASCII."""
_KEYS = ("secret_key", "encryption_keys")
"""Blank ones are refused: with generated ones in their place, nothing that exists would be accepted."""

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = [
    "BUNDLED_MODEL",
    "MAX_UPLOAD_BYTES",
    "FileRoot",
    "OidcProvider",
    "Settings",
    "Widget",
    "load",
    "read",
    "setting_name",
]


class Settings(  # pyright: ignore[reportIncompatibleVariableOverride] (the groups are plain models)
    BaseSettings,
    DatabaseSettings,
    HttpSettings,
    SignInSettings,
    MailSettings,
    EmbeddingSettings,
    SearchSettings,
    IndexSettings,
    AnswerSettings,
    SourceSettings,
    DriveSettings,
    WidgetSettings,
    LimitSettings,
    RetentionSettings,
    FixedFigures,
):
    """The validated settings; see `docs/configuration.md`."""

    model_config = SettingsConfigDict(env_prefix="CONCORDANCE_", env_file=".env", frozen=True, extra="ignore")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 (pydantic's signature)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment before `.env`, each with the groups taken apart."""
        for source in (env_settings, dotenv_settings):
            if isinstance(source, EnvSettingsSource):
                source.env_vars = variables.fields(source.env_vars)
        return init_settings, env_settings, dotenv_settings

    @field_validator("*", mode="before")
    @classmethod
    def _not_blank(cls, value: object, info: ValidationInfo) -> object:
        """Return None for a blank value of an optional setting, as a line `NAME=` in `.env` gives."""
        name = str(info.field_name)
        optional = cls.model_fields[name].default is None and name not in _KEYS
        return None if optional and isinstance(value, str) and not value.strip() else value

    @field_validator(*_IN_HEADERS)
    @classmethod
    def _sendable(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is None or isinstance(secret, Withheld):
            return secret
        text = secret.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise ValueError("has a character that no key or token has, such as the … of an example: copy it again")
        return secret

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        names = [root.name for root in self.file_roots]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"CONCORDANCE_FILE_ROOTS names {name!r} twice: give every root a name of its own")
        cluster = ("index_shards", "index_replicas", "index_write_consistency")
        if self.qdrant_url is None and (
            self.index_quantization == "binary" or any(getattr(self, name) for name in cluster)
        ):
            raise ValueError(
                "CONCORDANCE_INDEX__SHARDS, CONCORDANCE_INDEX__REPLICAS, CONCORDANCE_INDEX__WRITE_CONSISTENCY and "
                "CONCORDANCE_INDEX__QUANTIZATION=binary need a Qdrant server: set CONCORDANCE_QDRANT_URL"
            )
        check_mail(self)
        if self.llm_model is not None and self.llm_api_key is None and "api.openai.com" in self.llm_base_url:
            raise ValueError(
                "CONCORDANCE_LLM_MODEL needs CONCORDANCE_LLM_API_KEY, or CONCORDANCE_LLM_BASE_URL of a service that asks "
                "for none"
            )
        if self.drive_users and not (self.reads_as_service_account and self.google_subject):
            raise ValueError(
                "CONCORDANCE_DRIVE__USERS needs CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE, and an administrator in "
                "CONCORDANCE_GOOGLE_SUBJECT who lists the users"
            )
        if self.drive_link_sharing == "opened" and not self.drive_users:
            raise ValueError(
                "CONCORDANCE_DRIVE__LINK_SHARING=opened needs users: Drive tells only each person what they opened"
            )
        if self.query_expansion != "off" and self.llm_model is None:
            raise ValueError(
                f"CONCORDANCE_SEARCH__QUERY_EXPANSION={self.query_expansion} needs CONCORDANCE_LLM_MODEL: set it, or write off"
            )
        if (
            self.embedding_provider == "openai"
            and self.openai_api_key is None
            and "api.openai.com" in self.openai_base_url
        ):
            raise ValueError(
                "CONCORDANCE_EMBEDDING_PROVIDER=openai needs CONCORDANCE_OPENAI_API_KEY, or CONCORDANCE_OPENAI_BASE_URL of a service "
                "that asks for none"
            )
        return self


def setting_name(prefix: str, field: str) -> str:
    """Return the name of a setting without `CONCORDANCE_`, in lower case: `kinto_password`."""
    return f"{prefix.removeprefix('CONCORDANCE_')}{field}".lower()


def load(**overrides: Any) -> Settings:
    """Read and validate the settings. Raises `ConfigurationError` naming each wrong variable and what it should be.

    Ports that are not set are those that `up` has chosen for this HOME, or the defaults.
    """
    made = read(Settings, **overrides)
    found = {name: port for name, port in chosen(made.home).items() if name not in made.model_fields_set}
    return made.model_copy(update=found)


_S = TypeVar("_S", bound=BaseSettings)


def read(kind: type[_S], **overrides: Any) -> _S:
    """Read and validate settings of a class whose prefix begins with `CONCORDANCE_`. Raises as `load` does."""
    prefix = kind.model_config.get("env_prefix", "")
    if (missing := withheld()) is not None:  # the environment is complete, and what it lacks must not come from a file
        own = {name: missing.get(setting_name(prefix, name)) for name in kind.model_fields}
        overrides = {"_env_file": None, **{name: value for name, value in own.items() if value}, **overrides}
    try:
        overrides = {**read_files(kind, with_dotenv=missing is None), **overrides}
        return kind(**overrides)
    except ValidationError as error:
        lines = [_line(kind, prefix, fault) for fault in error.errors(include_url=False)]
        raise ConfigurationError("The settings are not right:\n  " + "\n  ".join(lines)) from None
    except ValueError as error:
        raise ConfigurationError(f"The settings are not right:\n  {error}") from None


def _line(kind: type[BaseSettings], prefix: str, fault: ErrorDetails) -> str:
    """Return one fault with the variable that it is in; a fault of several variables names them itself."""
    if not fault["loc"]:
        return message(fault, None)
    field, *inner = fault["loc"]
    name = variables.variable_of(setting_name(prefix, str(field)))
    if inner and field in _ENTRIES:
        number, *rest = inner
        inner = [f"{_ENTRIES[str(field)]} {int(number) + 1}", *rest]
    where = f" ({', '.join(map(str, inner))})" if inner else ""
    return f"{name}{where}: {message(fault, None if inner else kind.model_fields.get(str(field)))}"
