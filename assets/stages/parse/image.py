"""Parse an image: its title, its description and, with the extra `ocr` installed, the text in it."""

import io
import warnings

from assets.stages.normalize import BlockDraft
from assets.stages.parse.ocr import MAX_SIDE, Recogniser, languages
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError

MAX_PIXELS = 100_000_000
"""Larger images are not opened: unpacked they would take over 300 MB."""


def parse(data: bytes, *, title: str, description: str | None) -> Parsed:
    """Return the blocks of an image. Raises `SkipDocumentError` when it is damaged or too large."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as picture:
                width, height = picture.size
                picture.verify()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise SkipDocumentError(
            f"The image has more than {MAX_PIXELS // 10**6} million pixels. Scale it down."
        ) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError):
        raise SkipDocumentError("The file is damaged or not a PNG or JPEG image.") from None
    drafts = [BlockDraft(kind="heading", text=title, level=1)]
    if description:
        drafts.append(BlockDraft(kind="paragraph", text=description))
    warned: list[str] = []
    if languages():
        try:
            with Image.open(io.BytesIO(data)) as picture:
                picture.draft("L", (MAX_SIDE, MAX_SIDE))
                drafts.extend(Recogniser().drafts(picture))
        except (OSError, ValueError):  # cut off: only the whole picture shows it
            warned.append("The picture is damaged: its text is not read.")
    if len(drafts) == 1:  # nothing is known of it but its title
        drafts.append(BlockDraft(kind="paragraph", text=f"Picture, {width} x {height} pixels"))
    return Parsed(drafts=drafts, warnings=warned)
