"""Types of columns that responses contain as they are read."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

Moment = Annotated[datetime, Meta(tz=True)]
"""A time of a response: RFC 3339, UTC."""
Tags = Annotated[dict[str, Any], Meta(title="Tags", description="Tags by name: texts, numbers, true, false, or lists.")]
"""Tags of a document as they are stored."""
AnswerMode = Annotated[
    Literal["model", "extractive", "none"],
    Meta(
        title="AnswerMode",
        description="`model`: a language model wrote the answer. `extractive`: it consists of quotes. `none`: nothing was found.",
    ),
]
