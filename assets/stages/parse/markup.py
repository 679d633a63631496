"""Parse XML into indented `element: text` lines, one block per child of the root and per text between them."""

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Any

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError

_ENCODING = re.compile(r"\s*<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)[^>]*>")
_HEAD = 200
"""Bytes within which a file names its encoding."""
_MAX_INDENT = 8
"""Deeper levels are not indented further, to save tokens."""


def tree(data: bytes) -> Any:
    """Return the root element; nothing else is loaded.

    Raises `ValueError` for invalid XML, and `SkipDocumentError` for references to entities that the file declares, which are not resolved:
    they may name files and addresses, or expand without end. Others are characters of HTML (`&laquo;`), or stay what they are.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(str(error)) from None
    types: Any = root.getroottree().docinfo.internalDTD
    declared: set[str] = {one.name for one in types.iterentities()} if types is not None else set()
    entities: list[Any] = list(root.iter(etree.Entity))
    for entity in entities:
        if entity.name in declared:
            raise SkipDocumentError(
                f"The XML file refers to the entity {entity.name!r}, which is not loaded. Save it with its text in place."
            )
        text = html5.get(f"{entity.name};", str(entity.text)) + (entity.tail or "")
        parent, before = entity.getparent(), entity.getprevious()
        if before is None:
            parent.text = (parent.text or "") + text
        else:
            before.tail = (before.tail or "") + text
        parent.remove(entity)
    return root


def parse(data: bytes) -> Parsed:
    """Return the elements of an XML file; an invalid file is indexed as plain text."""
    try:
        root = tree(data)
    except ValueError:
        named = _ENCODING.match(data[:_HEAD].decode("latin-1"))
        decoded, warnings = decode(data, named[1] if named else None)
        try:
            # the library does not know each encoding
            root = tree(_ENCODING.sub("", decoded, count=1).encode(errors="replace"))
        except ValueError as error:
            return Parsed(
                drafts=[BlockDraft(kind="code", text=clean(decoded))],
                warnings=[*warnings, f"The file is not valid XML ({error}); it was indexed as plain text."],
            )
    drafts = [BlockDraft(kind="paragraph", text=own)] if (own := _line(root)) != _name(root) else []
    for child in root:
        drafts.append(BlockDraft(kind="list", text="\n".join(_lines(child))))
        if tail := one_line(child.tail or ""):
            drafts.append(BlockDraft(kind="paragraph", text=tail))
    return Parsed(drafts=drafts)


def _lines(element: Any) -> Iterator[str]:
    """Yield an element's lines, depth first, without recursion."""
    stack: list[tuple[int, Any]] = [(0, element)]
    while stack:
        depth, item = stack.pop()
        indent = "  " * min(depth, _MAX_INDENT)
        if isinstance(item, str):
            yield indent + item
            continue
        yield indent + _line(item)
        for child in reversed(item):
            if tail := one_line(child.tail or ""):
                stack.append((depth + 1, tail))
            if isinstance(child.tag, str):
                stack.append((depth + 1, child))


def _line(element: Any) -> str:
    attributes = ", ".join(f"{_local(name)} {one_line(value)}" for name, value in element.attrib.items())
    name = f"{_name(element)} ({attributes})" if attributes else _name(element)
    text = one_line(element.text or "")
    return f"{name}: {text}" if text else name


def _name(element: Any) -> str:
    return _local(element.tag)


def _local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]
