"""Parse RTF into paragraphs."""

from assets.stages.normalize import clean
from assets.stages.parse.result import Parsed
from assets.stages.parse.text import paragraphs


def parse(data: bytes) -> Parsed:
    """Return the paragraphs of an RTF file, one for each of its lines."""
    from striprtf.striprtf import rtf_to_text

    # RTF is ASCII; other characters are escaped in the code page that the file names
    text = rtf_to_text(data.decode("latin-1"), errors="replace")
    return Parsed(drafts=paragraphs(clean(text).replace("\n", "\n\n")))
