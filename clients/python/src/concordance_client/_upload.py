"""Files to upload: opened when sent, and counted while they are read."""

import io
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from concordance_client._generated.params import UploadMetadata

File = str | os.PathLike[str] | bytes | BinaryIO
"""A path, the bytes, or a file opened in binary mode that can be rewound."""
Progress = Callable[[int, int], None]
"""Receives the bytes sent so far and the size of the file. Begins again at 0 if the upload is repeated."""


@dataclass(frozen=True)
class Upload:
    """A file and its metadata."""

    name: str
    file: BinaryIO
    metadata: UploadMetadata
    progress: Progress | None = None

    def form(self) -> dict[str, Any]:
        """Return the arguments of an httpx request. It reads the file from its beginning, each time."""
        file = Counted(self.file, self.progress) if self.progress else self.file
        metadata = json.dumps(self.metadata)
        return {"files": {"file": (self.name, file)}, "data": {"metadata": metadata}}


@contextmanager
def opened(file: File, name: str | None) -> Generator[tuple[str, BinaryIO]]:
    """Yield the name and the opened file. What is given open stays open."""
    match file:
        case bytes():
            yield _named(name, None), io.BytesIO(file)
        case str() | os.PathLike():
            path = Path(file)
            with path.open("rb") as stream:
                yield name or path.name, stream
        case _:
            yield _named(name, getattr(file, "name", None)), file


def _named(name: str | None, own: object) -> str:
    """Return the name given, else that of the file itself. The service tells the type of a file by it."""
    if name is not None:
        return name
    if isinstance(own, str):
        return Path(own).name
    raise ValueError("filename: name the file, with its extension, for example notes.md.")


class Counted(io.RawIOBase):
    """A file that reports how much of it was read."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file, self._progress = file, progress
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        part = self._file.read(size)
        if part:
            self._progress(self._file.tell(), self._size)
        return part
