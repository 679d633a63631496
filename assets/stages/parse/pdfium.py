"""Read the pages of a PDF with PDFium: lines, form fields and notes, in the order of the file.

PDFium is not thread-safe. Only the parser process calls it, which has one thread.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from assets.stages.normalize import BlockDraft
from assets.stages.parse.pdf_lines import Box, Line, PageText, Shown, turned

_TEXT_OBJECT, _IMAGE, _FORM = 1, 3, 5
"""Kinds of a page's objects. Source: fpdf_edit.h"""
_INVISIBLE = 3
"""FPDF_TEXTRENDERMODE_INVISIBLE: text that a program recognised in the picture above it. Source: fpdf_edit.h"""
_MAX_OBJECTS = 20_000
"""Objects of a page that are looked at to find images."""
_FORM_DEPTH = 5
"""Maximum depth of forms within forms that are looked at."""
_MAX_NAME = 256
"""Characters of a layer's name; a longer one is taken for shown."""
_FEW_CHARACTERS = 200
"""A stamp, a fax's header or a running line; a page of text has more."""
_MAX_ANNOTATIONS = 5_000
_MAX_VALUE = 100_000
"""Bytes of a field's value or of a note."""
_WIDGET, _POPUP, _LINK, _FREE_TEXT, _STAMP = 20, 16, 2, 3, 13
"""Subtypes of annotations. Source: fpdf_annot.h"""
_HIDDEN = 2 | 32
"""Flags of annotations that are not shown: hidden, no view. Source: ISO 32000-1, table 165"""
_BUTTON, _CHECK_BOX, _RADIO, _COMBO, _CHOICES, _TEXT = 1, 2, 3, 4, 5, 6
"""Types of form fields. Source: fpdf_formfill.h"""
_PASSWORD = 1 << 13


class PdfPage(msgspec.Struct, kw_only=True):
    """What a page holds, in the order of the file."""

    lines: list[Line] = []
    notes: list[str] = []
    """Comments of people, each with its author."""
    undecoded: bool = False
    """True if the page has text in a font that does not say which characters it shows."""
    hidden: bool = False
    """True if the page has text in layers that are switched off."""
    images: bool = False
    """True if the page shows pictures that may have text, and at most a stamp besides."""
    recognised: list[BlockDraft] = []
    """What text recognition finds on the page."""


class Outline(msgspec.Struct, frozen=True):
    """An entry of the outline; `page` counts from 0."""

    title: str
    page: int
    level: int


class PasswordError(Exception):
    """The file cannot be opened without a password."""


class DamagedError(Exception):
    """PDFium cannot open the file."""


class Reader:
    """An open PDF. Close it after use: its memory is not Python's.

    `layers_off` is asked for the names of the layers that are switched off if the file has any: PDFium shows them only.
    """

    def __init__(self, data: bytes, layers_off: Callable[[], frozenset[str]] = frozenset[str]) -> None:
        import pypdfium2
        import pypdfium2.raw as raw

        logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)  # it prints advice about builds with XFA
        self._raw: Any = raw
        self._layers_off = cache(layers_off)
        try:
            self._file: Any = pypdfium2.PdfDocument(data)
            if not len(self._file):
                raise DamagedError("it has no pages")
            self._file.init_forms()
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise PasswordError from None
            raise DamagedError(str(error)) from None

    def __len__(self) -> int:
        return len(self._file)

    def close(self) -> None:
        self._file.close()

    def metadata(self, name: str) -> str:
        key = name.encode() + b"\0"
        return _string(lambda buffer, size: self._raw.FPDF_GetMetaText(self._file, key, buffer, size))

    def outline(self) -> Iterator[Outline]:
        """Yield the entries of the outline that lead to a page."""
        for entry in self._file.get_toc():
            place = entry.get_dest()
            page = place.get_index() if place is not None else None
            named = _string(lambda buffer, size, one=entry: self._raw.FPDFBookmark_GetTitle(one, buffer, size))
            title = " ".join(named.split())
            if page is not None and title:
                yield Outline(title, page, entry.level + 1)

    def attachments(self, most: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield the name and content of each embedded file; None for one that cannot be read."""
        import pypdfium2

        for index in range(min(self._file.count_attachments(), most)):
            one = self._file.get_attachment(index)
            name = _string(lambda buffer, size, one=one: self._raw.FPDFAttachment_GetName(one, buffer, size))
            try:
                yield name, bytes(one.get_data())
            except pypdfium2.PdfiumError:
                yield name, None

    def page(self, index: int) -> PdfPage:
        """Return what a page holds. Raises `DamagedError` if PDFium cannot load it."""
        import pypdfium2

        try:
            page: Any = self._file[index]
        except pypdfium2.PdfiumError as error:
            raise DamagedError(str(error)) from None
        try:
            shown = _shown(turned(self._raw, page))
            hidden = set(self._hidden(self._objects_of(page), _FORM_DEPTH, within=False))
            lines, undecoded = PageText(self._raw, page, shown).read(
                split=bool(self._file.formenv), hidden=hidden, crop=_crop(self._raw, page)
            )
            found = PdfPage(lines=lines, undecoded=undecoded, hidden=bool(hidden))
            self._annotations(page, index, shown, found)
            found.images = self._has_images(page) if not found.lines else self._is_stamped(page, found.lines)
            if self._file.formenv:
                found.lines = list(_joined(found.lines))
        except pypdfium2.PdfiumError as error:
            raise DamagedError(str(error)) from None
        else:
            return found
        finally:
            page.close()

    def picture(self, index: int, dots_per_inch: int, most: int) -> Any:
        """Return a page as a picture (PIL) with at most `most` pixels a side."""
        page: Any = self._file[index]
        try:
            scale = min(dots_per_inch / 72, most / max(*page.get_size(), 1.0))
            return page.render(scale=scale, grayscale=True).to_pil()
        finally:
            page.close()

    def _has_images(self, page: Any) -> bool:
        kinds = map(self._raw.FPDFPageObj_GetType, islice(self._objects_of(page), _MAX_OBJECTS))
        return any(kind in {_IMAGE, _FORM} for kind in kinds)

    def _is_stamped(self, page: Any, lines: list[Line]) -> bool:
        """Return True if pictures cover half of a page that has little text, none of which was recognised in them."""
        if sum(len(line.text) for line in lines) > _FEW_CHARACTERS:
            return False
        covered = 0.0
        for one, scale in islice(self._nested(self._objects_of(page), _FORM_DEPTH, 1.0), _MAX_OBJECTS):
            kind = self._raw.FPDFPageObj_GetType(one)
            if kind == _TEXT_OBJECT and self._raw.FPDFTextObj_GetTextRenderMode(one) == _INVISIBLE:
                return False
            covered += self._scale(one) * scale if kind == _IMAGE else 0.0
        width, height = page.get_size()
        return 2 * covered > width * height

    def _objects_of(self, page: Any) -> Iterator[Any]:
        count = self._raw.FPDFPage_CountObjects(page)
        return (self._raw.FPDFPage_GetObject(page, index) for index in range(count))

    def _objects_in(self, form: Any) -> Iterator[Any]:
        count = self._raw.FPDFFormObj_CountObjects(form)
        return (self._raw.FPDFFormObj_GetObject(form, index) for index in range(max(count, 0)))

    def _nested(self, objects: Iterator[Any], depth: int, scale: float) -> Iterator[tuple[Any, float]]:
        """Yield objects and those of forms among them, with the factor by which forms scale their areas."""
        for one in objects:
            yield one, scale
            if depth and self._raw.FPDFPageObj_GetType(one) == _FORM:
                yield from self._nested(self._objects_in(one), depth - 1, scale * self._scale(one))

    def _hidden(self, objects: Iterator[Any], depth: int, *, within: bool) -> Iterator[int]:
        """Yield the addresses of text objects in layers that are switched off. `within`: the objects are of a form in one."""
        for one in objects:
            kind = self._raw.FPDFPageObj_GetType(one)
            if kind not in {_TEXT_OBJECT, _FORM}:
                continue
            hidden = within or any(name in self._layers_off() for name in self._layers(one))
            if hidden and kind == _TEXT_OBJECT:
                yield ctypes.addressof(one.contents)
            elif depth and kind == _FORM:
                yield from self._hidden(self._objects_in(one), depth - 1, within=hidden)

    def _layers(self, one: Any) -> Iterator[str]:
        """Yield the names of the layers that an object is marked with. Source: ISO 32000-1, 8.11.3.2 (OC)"""
        raw = self._raw
        for index in range(raw.FPDFPageObj_CountMarks(one)):
            mark = raw.FPDFPageObj_GetMark(one, index)
            if _marked(raw.FPDFPageObjMark_GetName, mark) == "OC":
                yield _marked(raw.FPDFPageObjMark_GetParamStringValue, mark, b"Name")

    def _scale(self, one: Any) -> float:
        """Return by which factor an object's matrix scales areas: for a picture, its area in square points."""
        matrix = self._raw.FS_MATRIX()
        known = self._raw.FPDFPageObj_GetMatrix(one, matrix)
        return abs(matrix.a * matrix.d - matrix.b * matrix.c) if known else 0.0

    def _annotations(self, page: Any, number: int, shown: Shown, found: PdfPage) -> None:
        raw = self._raw
        drawn: list[Any] = []
        for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
            annotation = raw.FPDFPage_GetAnnot(page, index)
            if not annotation:
                continue
            try:
                kind = raw.FPDFAnnot_GetSubtype(annotation)
                if raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN or kind in {_POPUP, _LINK}:
                    continue
                if kind == _WIDGET:
                    if self._file.formenv and (field := self._field(annotation)) is not None:
                        _place(found.lines, field, _box(self._rectangle(annotation), shown))
                    elif self._is_drawn(annotation):
                        drawn.append(self._rectangle(annotation))
                elif text := _string(
                    lambda buffer, size, one=annotation: raw.FPDFAnnot_GetStringValue(one, b"Contents", buffer, size)
                ):
                    if kind == _FREE_TEXT:
                        found.lines.append(_free(text, _box(self._rectangle(annotation), shown), index))
                    else:
                        author = _string(
                            lambda buffer, size, one=annotation: raw.FPDFAnnot_GetStringValue(one, b"T", buffer, size)
                        )
                        found.notes.append(f"{author}: {text}" if author else text)
                elif kind in {_FREE_TEXT, _STAMP}:
                    drawn.append(self._rectangle(annotation))
            finally:
                raw.FPDFPage_CloseAnnot(annotation)
        for index, (text, box) in enumerate(self._drawn(page, number, drawn) if drawn else ()):
            if self._file.formenv:
                _place(found.lines, _Field("", text, box=False), _box(box, shown))
            else:
                found.lines.append(_free(text, _box(box, shown), _MAX_ANNOTATIONS + index))

    def _rectangle(self, annotation: Any) -> Any:
        rectangle = self._raw.FS_RECTF()
        self._raw.FPDFAnnot_GetRect(annotation, rectangle)
        return rectangle

    def _is_drawn(self, annotation: Any) -> bool:
        """Return True if a field without a value may show text, as a signature does; buttons only say what they do."""
        raw, form = self._raw, self._file.formenv
        if not form:  # boxes to check have states
            return not _string(lambda buffer, size: raw.FPDFAnnot_GetStringValue(annotation, b"AS", buffer, size))
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        secret = kind == _TEXT and raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
        return kind != _BUTTON and not secret

    def _drawn(self, page: Any, number: int, rectangles: list[Any]) -> Iterator[tuple[str, Any]]:
        """Yield the text that annotations show in their rectangles, without lines that the page shows there itself.

        PDFium reads the text of pages only, so the annotations become part of the page, in memory.
        """
        below = [set(lines) for lines in _lines_within(page, rectangles)]
        if self._raw.FPDFPage_Flatten(page, self._raw.FLAT_NORMALDISPLAY) != self._raw.FLATTEN_SUCCESS:
            return
        flat: Any = self._file[number]
        try:
            for rectangle, own, lines in zip(rectangles, below, _lines_within(flat, rectangles), strict=True):
                if text := "\n".join(line for line in lines if line not in own):
                    yield text, rectangle
        finally:
            flat.close()

    def _field(self, annotation: Any) -> "_Field | None":
        raw, form = self._raw, self._file.formenv
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        names = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
        name = next(
            (
                text
                for get in names
                if (text := _string(lambda buffer, size, get=get: get(form, annotation, buffer, size)))
            ),
            "",
        )
        if kind in {_CHECK_BOX, _RADIO}:
            if kind == _RADIO:
                name = (
                    _string(lambda buffer, size: raw.FPDFAnnot_GetFormFieldExportValue(form, annotation, buffer, size))
                    or name
                )
            return _Field(name, "☒" if raw.FPDFAnnot_IsChecked(form, annotation) else "☐", box=True)
        if kind == _TEXT and raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
            return None
        if kind in {_COMBO, _CHOICES}:
            count = min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MAX_ANNOTATIONS)
            chosen = [
                _string(
                    lambda buffer, size, index=index: raw.FPDFAnnot_GetOptionLabel(
                        form, annotation, index, buffer, size
                    )
                )
                for index in range(count)
                if raw.FPDFAnnot_IsOptionSelected(form, annotation, index)
            ]
            if text := ", ".join(filter(None, chosen)):
                return _Field(name, text, box=False)
        elif kind != _TEXT:
            return None
        text = _string(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
        return _Field(name, text, box=False) if text else None


_Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    value: str
    box: bool


def _shown(quarters: int) -> Shown:
    """Return how coordinates turn with the page. Source: ISO 32000-1, table 30, Rotate (clockwise)"""
    turns: list[Shown] = [lambda x, y: (x, y), lambda x, y: (y, -x), lambda x, y: (-x, -y), lambda x, y: (-y, x)]
    return turns[quarters % 4]


def _crop(raw: Any, page: Any) -> Box | None:
    """Return the part of a page that is shown; None if that is the whole sheet. The box in the file may be inherited, or no box."""
    shown = raw.FS_RECTF()
    if not raw.FPDF_GetPageBoundingBox(page, shown):
        return None
    crop = (shown.left, shown.bottom, shown.right, shown.top)
    one, two, three, four = page.get_mediabox()
    sheet = (min(one, three), min(two, four), max(one, three), max(two, four))
    is_empty = crop[2] <= crop[0] or crop[3] <= crop[1]
    within = crop[0] > sheet[0] or crop[1] > sheet[1] or crop[2] < sheet[2] or crop[3] < sheet[3]
    return crop if within and not is_empty else None


def _box(rectangle: Any, shown: Shown) -> _Box:
    (a, b), (c, d) = shown(rectangle.left, rectangle.bottom), shown(rectangle.right, rectangle.top)
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _free(text: str, box: _Box, index: int) -> Line:
    """Return the line of an annotation, in a row of its own."""
    left, bottom, right, top = box
    return Line(text=text, left=left, right=right, baseline=(bottom + top) / 2, row=-1 - index)


def _lines_within(page: Any, rectangles: list[Any]) -> list[list[str]]:
    """Return the lines of a page's text in each rectangle."""
    text = page.get_textpage()
    try:
        found = [text.get_text_bounded(one.left, one.bottom, one.right, one.top) for one in rectangles]
    finally:
        text.close()
    return [[line.strip() for line in one.splitlines() if line.strip()] for one in found]


def _string(get: Callable[[Any, int], int]) -> str:
    """Return a UTF-16 string from a function that reports its size in bytes, without halves of surrogate pairs."""
    size = get(None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(min(size, _MAX_VALUE) + 2)
    if size <= _MAX_VALUE:
        get(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return (
        buffer.raw[: size - 2]
        .decode("utf-16-le", errors="ignore")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .strip("\x00 \n")
    )


def _marked(get: Callable[..., int], *of: Any) -> str:
    """Return a UTF-16 string of a mark, or nothing if it is missing or too long for the name of a layer."""
    buffer, size = (ctypes.c_ushort * _MAX_NAME)(), ctypes.c_ulong()
    known = get(*of, buffer, ctypes.sizeof(buffer), size) and 2 < size.value <= ctypes.sizeof(buffer)
    return bytes(buffer)[: size.value - 2].decode("utf-16-le", errors="ignore") if known else ""


def _place(lines: list[Line], field: _Field, box: _Box) -> None:
    """Put the value of a field into the row of its label, or below the other lines with the field's name."""
    left, bottom, right, top = box

    def distance(line: Line) -> float:
        return max(line.left - right, left - line.right, 0.0)

    beside = [line for line in lines if line.size and bottom - 2 <= line.baseline + line.size / 3 <= top + 2]
    label = min(beside, key=distance, default=None)
    if label is not None and "\n" not in field.value:
        value = Line(text=field.value, left=left, right=right, baseline=label.baseline, row=label.row)
    else:
        text = field.value if label is not None or not field.name else f"{field.name}: {field.value}"
        text = f"{field.value} {field.name}" if field.box else text
        row = max((line.row for line in lines), default=0) + 1
        value = Line(text=text, left=left, right=right, baseline=(bottom + top) / 2, row=row)
    lines.append(value)


def _joined(lines: list[Line]) -> Iterator[Line]:
    """Yield one line for each row."""
    rows: dict[int, list[Line]] = {}
    for line in lines:
        rows.setdefault(line.row, []).append(line)
    for row in rows.values():
        row.sort(key=lambda line: line.left)
        first = next((line for line in row if line.size), row[0])
        first.text = " ".join(line.text for line in row)
        first.left, first.right = row[0].left, max(line.right for line in row)
        first.bold = all(line.bold for line in row)
        yield first
