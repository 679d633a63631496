"""The rows and columns that a binary workbook of Excel hides, which the library that reads its cells does not name.

A walk over the records of .xls and .xlsb that looks at those of rows and columns alone. Sources: MS-XLS (Row, ColInfo, BoundSheet8) and
MS-XLSB (BrtRowHdr, BrtColInfo, BrtBundleSh).
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from assets.stages.parse.package import Package

_BOF, _EOF, _BOUND_SHEET, _ROW, _COLUMN = 0x0809, 0x000A, 0x0085, 0x0208, 0x007D
_XLSB_ROW, _XLSB_COLUMN, _XLSB_SHEET = 0, 60, 156
MAX_COLUMNS = 16_384


@dataclass
class HiddenCells:
    """The hidden rows and columns of a sheet, from 0."""

    rows: set[int] = field(default_factory=set[int])
    columns: set[int] = field(default_factory=set[int])


def hidden_of_xls(data: bytes) -> list[HiddenCells]:
    """Return what each sheet hides, in order. Raises `ValueError` or `OSError` for a file that is not built as Excel builds it."""
    from olefile import OleFileIO

    made: Any = OleFileIO  # its methods have no types
    with made(io.BytesIO(data)) as container:
        name = next((one for one in ("Workbook", "Book") if container.exists(one)), None)
        if name is None:
            raise ValueError("no stream of a workbook")
        stream = container.openstream(name).read()
    starts = [
        int.from_bytes(body[:4], "little")
        for kind, body in _records(stream, 0)
        if kind == _BOUND_SHEET and len(body) >= 4
    ]
    return [_sheet_of_xls(stream, start) for start in starts]


def hidden_of_xlsb(package: Package) -> list[HiddenCells]:
    """Return what each sheet hides, in order. Raises `ValueError` for a file that is not built as Excel builds it."""
    relations = package.relations(package.main)
    found: list[HiddenCells] = []
    for kind, body in _xlsb_records(package.read(package.main) or b""):
        if kind == _XLSB_SHEET:
            part = relations.get(_relation(body))
            content = package.read(part.target) if part is not None else None
            if content is None:
                raise ValueError("a sheet has no part")
            found.append(_sheet_of_xlsb(content))
    return found


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each record up to the end of the substream that begins at `at`."""
    depth = 0
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        at += 4
        if kind == _BOF:
            depth += 1
        elif kind == _EOF:
            depth -= 1
            if depth <= 0:
                return
        yield kind, stream[at : at + size]
        at += size


def _sheet_of_xls(stream: bytes, start: int) -> HiddenCells:
    found = HiddenCells()
    for kind, body in _records(stream, start):
        if kind == _ROW and len(body) >= 14:
            row, flags = struct.unpack_from("<H10xH", body)
            if flags & 0x20:
                found.rows.add(row)
        elif kind == _COLUMN and len(body) >= 10:
            first, last, width, _, flags = struct.unpack_from("<5H", body)
            if flags & 1 or width == 0:
                found.columns.update(range(first, min(last, MAX_COLUMNS) + 1))
    return found


def _xlsb_records(part: bytes) -> Iterator[tuple[int, bytes]]:
    at, end = 0, len(part)
    while at < end:
        kind = part[at]
        at += 1
        if kind & 0x80:
            if at >= end:
                return
            kind = (kind & 0x7F) | (part[at] & 0x7F) << 7
            at += 1
        size = shift = 0
        for _ in range(4):
            if at >= end:
                return
            byte = part[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield kind, part[at : at + size]
        at += size


def _sheet_of_xlsb(part: bytes) -> HiddenCells:
    found = HiddenCells()
    for kind, body in _xlsb_records(part):
        if kind == _XLSB_ROW and len(body) >= 12:
            if body[11] & 0x10:
                found.rows.add(int.from_bytes(body[:4], "little"))
        elif kind == _XLSB_COLUMN and len(body) >= 18:
            first, last, width, _, flags = struct.unpack_from("<4IH", body)
            if flags & 1 or width == 0:
                found.columns.update(range(first, min(last, MAX_COLUMNS) + 1))
    return found


def _relation(body: bytes) -> str:
    """Return the id of the relation that a sheet's record names."""
    length = int.from_bytes(body[8:12], "little")
    return body[12 : 12 + 2 * min(length, 1000)].decode("utf-16-le", "replace")
