"""List the files of a zip archive. It is not unpacked: what is in it has neither names, permissions nor pages of its own."""

import io
import zipfile

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError

MAX_LISTED = 10_000
_BLOCK = 40
"""Names in a block."""


def parse(data: bytes) -> Parsed:
    """Return the names of the files in an archive. Raises `SkipDocumentError` if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [one_line(entry.filename) for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as error:
        raise SkipDocumentError(f"The zip archive is damaged: {one_line(str(error))[:160]}.") from None
    names = [name for name in names if name]
    if not names:
        raise SkipDocumentError("The zip archive holds no files.")
    warnings = ["The files in the archive are listed but not read. Unpack it, and they will be indexed."]
    if len(names) > MAX_LISTED:
        warnings.append(f"The archive holds {len(names):,} files; the first {MAX_LISTED:,} are listed.")
    names = names[:MAX_LISTED]
    blocks = [names[at : at + _BLOCK] for at in range(0, len(names), _BLOCK)]
    counted = "1 file" if len(names) == 1 else f"{len(names):,} files"
    drafts = [BlockDraft(kind="paragraph", text=f"Zip archive of {counted}")]
    drafts += [BlockDraft(kind="list", text="\n".join(f"- {name}" for name in block)) for block in blocks]
    return Parsed(drafts=drafts, warnings=warnings)
