"""Kinds of sentences that quote documents, for those who may not read them. A kind is derived from the fixed part of its sentences."""

import re
from collections.abc import Mapping

OTHER = "other"


class Kinds:
    """Kinds by the patterns that their sentences contain."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {kind: re.compile(pattern) for kind, pattern in patterns.items()}
        self.names = (*patterns, OTHER)

    def of(self, text: str) -> str:
        """Return one of `names`. The first that matches counts."""
        return next((kind for kind, pattern in self._patterns.items() if pattern.search(text)), OTHER)
