"""Settings of the chat widgets that pages of other sites embed."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from resources.settings.urls import WebOrigin
from resources.settings.values import json_or_file


class Widget(BaseModel):
    """A widget: the pages that may show it, and the collection whose public documents it answers from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    origins: tuple[WebOrigin, ...]
    collection: str = Field(min_length=1, max_length=2000)
    """A file root or a folder of it, a Drive folder, or a Slack channel, as in `filters.collection_ids`."""
    daily_questions: Annotated[int, Field(ge=1)] = 1000
    """Questions of all visitors together within 24 hours."""

    @field_validator("origins")
    @classmethod
    def _some(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if not origins:
            raise ValueError("must name a site that may show the widget, such as https://docs.acme.com")
        return origins


class WidgetSettings(BaseModel):
    widgets: Annotated[tuple[Widget, ...], NoDecode] = ()
    """JSON list, or @path to one."""

    @field_validator("widgets", mode="before")
    @classmethod
    def _read_widgets(cls, value: Any) -> Any:
        return json_or_file(value)

    @field_validator("widgets")
    @classmethod
    def _distinct(cls, widgets: tuple[Widget, ...]) -> tuple[Widget, ...]:
        if len({one.name for one in widgets}) < len(widgets):
            raise ValueError("names a widget twice: give every widget a name of its own")
        return widgets
