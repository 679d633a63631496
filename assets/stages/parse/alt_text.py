"""What people say of a picture. Programs write the name of its file there, or what a model sees, which no reader of the file sees."""

import re

from assets.stages.normalize import one_line

_FILE = re.compile(r".*\.(?:png|jpe?g|gif|bmp|dib|[ew]mf|tiff?|svg|webp|heic)(?:\[\d+\])?", re.IGNORECASE)
_GENERATED = re.compile(
    r"automatically generated|AI.generated|automatisch generiert|KI.generiert|générée? automatiquement|généré par l.IA",
    re.IGNORECASE,
)
"""What Office adds to descriptions of its own, in English, German and French."""


def described(text: str | None) -> str:
    """Return a picture's description in one line, or nothing if no person wrote it."""
    line = one_line(text or "")
    return "" if _FILE.fullmatch(line) or _GENERATED.search(line) else line
