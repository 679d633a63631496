"""Check that a zipped Office file is safe to unpack.

Office files are zip archives: a few kilobytes may unpack to gigabytes. The directory is read before anything is unpacked,
and `zipfile` never unpacks more of an entry than the directory says.
"""

import io
import zipfile

from resources.core.errors import SkipDocumentError

MAX_UNPACKED = 400 * 1024 * 1024
"""Maximum unpacked size of the whole file, in bytes."""
MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size; real documents stay below about 50, spreadsheets of repeated cells below 100."""
RATIO_FROM = 20 * 1024 * 1024
"""Files that unpack to less than this may have any ratio."""
MAX_ENTRIES = 10_000
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")


def check(data: bytes, *, part: str, kind: str) -> None:
    """Raise `SkipDocumentError` unless this is a valid archive of acceptable size that contains the entry `part`."""
    if data.startswith(_OLE):
        raise SkipDocumentError(
            f"The file is protected by a password or in an old Office format. Save it as an unprotected {kind} file."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise SkipDocumentError(f"The file is damaged or not a {kind} file: {error}.") from None
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > MAX_ENTRIES:
        raise SkipDocumentError(f"The {kind} file has {len(entries)} parts; at most {MAX_ENTRIES} are read.")
    if unpacked > MAX_UNPACKED:
        raise SkipDocumentError(
            f"The {kind} file unpacks to {unpacked // 2**20} MB; at most {MAX_UNPACKED // 2**20} MB are read."
        )
    if unpacked > RATIO_FROM and unpacked > MAX_RATIO * max(1, len(data)):
        raise SkipDocumentError(
            f"The {kind} file unpacks to {unpacked // max(1, len(data))} times its size, as zip bombs do; it is not opened."
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise SkipDocumentError(f"The {kind} file is encrypted. Save it without a password.")
    if not any(entry.filename.startswith(part) for entry in entries):
        raise SkipDocumentError(f"The file is a zip archive but not a {kind} file.")
