"""HTML enters; headings, paragraphs, lists, tables and preformatted text leave, without scripts, styles and navigation.

The tree is walked with a stack of our own, never by recursion: pages nested a hundred thousand deep exist to crash parsers.
"""

from __future__ import annotations

import re
from typing import Any

from assets.stages.normalize import Draft, clean, one_line
from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table

_DROPPED = frozenset(
    {
        "script", "style", "nav", "noscript", "template", "svg", "iframe", "object", "canvas", "select", "button",
        "textarea", "head", "math",
    }
)  # fmt: skip
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend",
        "li", "main", "ol", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
    }
)  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_WHITE_SPACE = re.compile(r"\s+")
_LISTS = frozenset({"ul", "ol", "menu"})


class _Close:
    """Marks on the stack that an element's children are done."""

    __slots__ = ("tag",)

    def __init__(self, tag: str) -> None:
        self.tag = tag


class _Walker:
    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._inline: list[str] = []
        self._lists: list[int | None] = []
        self._items: list[str] = []
        self._marker = ""

    def walk(self, root: Any) -> list[Draft]:
        stack: list[Any] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, _Close):
                self._close(node.tag)
                continue
            tag = node.tag
            if tag == "-text":
                self._inline.append(_WHITE_SPACE.sub(" ", node.text_content or ""))
                continue
            if tag in _DROPPED or tag.startswith(("-", "!")) or "hidden" in node.attributes:
                continue
            if self._whole(node, tag):
                continue
            self._open(node, tag)
            stack.append(_Close(tag))
            children: list[Any] = []
            child = node.child
            while child is not None:
                children.append(child)
                child = child.next
            stack.extend(reversed(children))
        self._flush()
        self._end_list()
        return self.drafts

    def _whole(self, node: Any, tag: str) -> bool:
        """Take elements that are read as one piece; tells whether this was one."""
        if tag in _HEADINGS:
            self._flush()
            self._end_list()
            text = one_line(node.text(separator="") or "").strip("¶#").strip()
            self.drafts.append(
                Draft(kind="heading", text=text, level=_HEADINGS[tag], anchor=node.attributes.get("id") or None)
            )
        elif tag == "pre" and not self._lists:
            self._flush()
            self.drafts.append(Draft(kind="code", text=node.text(separator="")))
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._inline.append(f" {node.attributes.get('alt') or ''} ")
        elif tag == "table" and not self._lists and (rows := _rows(node)) is not None:
            self._flush()
            self.drafts.extend(table(rows[1:], header=rows[0]) if len(rows) > 1 else table(rows))
        else:
            return False
        return True

    def _open(self, node: Any, tag: str) -> None:
        if tag in _LISTS:
            self._flush()
            start = node.attributes.get("start") or "1"
            self._lists.append((int(start) if start.isdigit() else 1) if tag == "ol" else None)
        elif tag == "li":
            self._flush()
            number = self._lists[-1] if self._lists else None
            self._marker = "- " if number is None else f"{number}. "
            if self._lists and number is not None:
                self._lists[-1] = number + 1
        elif tag in _BLOCKS:
            self._flush()

    def _close(self, tag: str) -> None:
        if tag in _LISTS:
            self._flush()
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag in _BLOCKS:
            self._flush()

    def _flush(self) -> None:
        text = "".join(self._inline)
        self._inline.clear()
        if not text or text.isspace():
            return
        if self._lists or self._marker:
            depth = min(len(self._lists) - 1, 8)
            self._items.append("  " * max(depth, 0) + (self._marker or "  ") + one_line(text))
            self._marker = ""
            if not self._lists:
                self._end_list()
        else:
            self.drafts.append(
                Draft(kind="paragraph", text="\n".join(line for part in text.split("\n") if (line := one_line(part))))
            )

    def _end_list(self) -> None:
        if self._items:
            self.drafts.append(Draft(kind="list", text="\n".join(self._items)))
            self._items = []


def _rows(node: Any) -> list[list[str]] | None:
    """Return a data table's cells, or None for a table that only lays out the page."""
    if node.css_first("table table, h1, h2, h3, ul, ol, pre, p + p") is not None:
        return None
    rows = [[one_line(cell.text(separator=" ")) for cell in row.css("td, th")] for row in node.css("tr")]
    rows = [row for row in rows if any(row)]
    return rows if rows and max(map(len, rows)) > 1 else None


def parse(data: bytes) -> Parsed:
    """Return the blocks of an HTML page."""
    from selectolax.lexbor import LexborHTMLParser

    decoded, warnings = decode(data)
    tree = LexborHTMLParser(clean(decoded))
    head = tree.css_first("title")
    author = tree.css_first("meta[name=author]")
    body = tree.body or tree.root
    return Parsed(
        drafts=_Walker().walk(body) if body is not None else [],
        title=one_line(head.text()) or None if head is not None else None,
        author=author.attributes.get("content") if author is not None else None,
        warnings=warnings,
    )
