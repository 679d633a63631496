"""Parse a PowerPoint file; each slide becomes a page with its title as a heading, text, tables and speaker notes."""

import io
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table
from resources.core.errors import SkipDocumentError

_MAX_LEVEL = 8


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield shapes in order, including those in groups, without recursion."""
    stack = list(reversed(list(shapes)))
    while stack:
        shape = stack.pop()
        if hasattr(shape, "shapes"):
            stack.extend(reversed(list(shape.shapes)))
        else:
            yield shape


def _text(frame: Any, page: int) -> BlockDraft | None:
    lines = [(min(paragraph.level, _MAX_LEVEL), one_line(paragraph.text)) for paragraph in frame.paragraphs]
    lines = [(level, line) for level, line in lines if line]
    if not lines:
        return None
    if len(lines) == 1:
        return BlockDraft(kind="paragraph", text=lines[0][1], page=page)
    return BlockDraft(kind="list", text="\n".join(f"{'  ' * level}- {line}" for level, line in lines), page=page)


def _slide(slide: Any, page: int) -> Iterator[BlockDraft]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame and title.text_frame.text.strip():
        yield BlockDraft(kind="heading", text=title.text_frame.text, level=1, page=page)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if getattr(shape, "has_table", False):
            # python-pptx's `rows` counts all rows again for each one that it returns
            rows = [[cell.text for cell in row.tc_lst] for row in shape.table._tbl.tr_lst]
            yield from table(rows[1:], header=rows[0], page=page) if len(rows) > 1 else table(rows, page=page)
        elif shape.has_text_frame and (draft := _text(shape.text_frame, page)) is not None:
            yield draft
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
        yield BlockDraft(kind="paragraph", text=f"Notes: {frame.text}", page=page)


def parse(data: bytes) -> Parsed:
    """Return the slides of a PPTX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    check(data, part="ppt/", kind="PPTX")
    from lxml.etree import XMLSyntaxError
    from pptx import Presentation
    from pptx.exc import PythonPptxError

    try:
        deck = Presentation(io.BytesIO(data))
        # A presentation may list a slide any number of times; it is read once.
        slides = list({slide.part.partname: slide for slide in deck.slides}.values())
        drafts = [draft for page, slide in enumerate(slides, start=1) for draft in _slide(slide, page)]
        title, author = deck.core_properties.title, deck.core_properties.author
    except (PythonPptxError, XMLSyntaxError, KeyError, ValueError) as error:
        raise SkipDocumentError(f"The PPTX file is damaged: {one_line(str(error))[:160]}.") from None
    return Parsed(
        drafts=drafts,
        title=title if title and title != "PowerPoint Presentation" else None,
        author=author or None,
        page_count=len(slides),
    )
