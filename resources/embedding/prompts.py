"""Prefixes of queries and passages, which models such as E5 were trained with."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from resources.settings.limits import Prompts

NO_PROMPTS = Prompts()
PASSAGE_NAMES = ("passage", "document")


_MARK = "+"
_MARKED = re.compile(r"\+[0-9a-f]{6}")


def of_card(described: Mapping[str, Any]) -> Prompts:
    """Return the prompts of a `config_sentence_transformers.json`.

    Source: https://sbert.net/examples/sentence_transformer/applications/computing-embeddings/README.html#prompt-templates
    """
    named: Mapping[str, Any] = described.get("prompts") or {}
    passage = next((str(named[name]) for name in PASSAGE_NAMES if named.get(name)), "")
    return Prompts(query=str(named.get("query") or ""), passage=passage)


def suffix(prompts: Prompts) -> str:
    """Return what a model's name ends with: other prompts give other vectors, so they are another model."""
    if prompts == NO_PROMPTS:
        return ""
    return f"{_MARK}{hashlib.sha256(prompts.model_dump_json().encode()).hexdigest()[:6]}"


def has_prompts(model: str) -> bool:
    """Return True if the name is that of a model with prompts."""
    return _MARKED.fullmatch(model[-7:]) is not None
