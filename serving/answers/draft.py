"""The state of an answer while it is written."""

from dataclasses import dataclass, field
from typing import Literal

from msgspec import UNSET, UnsetType

from serving.answers.quoted import Mark
from serving.answers.schemas import Unanswered
from serving.answers.support import Verdict
from serving.search.retrieval.passage import Warning_


@dataclass
class Draft:
    """An answer that is being written."""

    text: str = ""
    mode: Literal["model", "extractive", "none"] = "none"
    cached: bool = False
    sentences: list[Verdict] = field(default_factory=list[Verdict])
    marks: list[Mark] = field(default_factory=list[Mark])
    """Where the sentences were taken from, if they are quotes."""
    removed_citations: int = 0
    removed_links: int = 0
    model_ms: float = 0.0
    warnings: list[Warning_] = field(default_factory=list[Warning_])
    unanswered: Unanswered | UnsetType = UNSET
    completed: bool = False
