"""Parse HTML into headings, paragraphs, lists, tables and preformatted text, without scripts, styles and navigation.

The tree is walked with an explicit stack instead of recursion, because pages nested a hundred thousand deep exist to crash parsers.
Pages whose tree would take the HTML parser too long are read as plain text.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.alt_text import described
from assets.stages.parse.boilerplate import content, is_boilerplate
from assets.stages.parse.decoding import decode
from assets.stages.parse.html_tables import box, children, code_text, formula, grid, inline_text, labels, script
from assets.stages.parse.marks import STRUCK, STRUCK_TAGS, apart
from assets.stages.parse.numbering import FORMS, numeral
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import line, table
from assets.stages.parse.tags import strip_html
from assets.stages.parse.text import paragraphs
from assets.stages.parse.visibility import FOLD, is_hidden, prepare

_DROPPED = frozenset(
    {
        "script", "style", "noscript", "template", "iframe", "object", "canvas", "button", "head",
        "rt", "rp", "rtc",
    }
)  # fmt: skip
"""Elements without text of their own; of ruby, the readings beside it."""
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "button", "caption", "center", "dd", "details", "dialog", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend",
        "li", "main", "ol", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
    }
)  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(
    rb"<(?:meta|\?xml)\b[^>]{0,300}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE
)
_HEAD_BYTES = 200_000
"""Bytes in which a page may name its encoding; browsers read 1,024, but pages with long scripts before it exist."""
_SIGNS = re.compile(r"^#+ | #+$")
"""Links of a heading to itself, and signs of Markdown; `C#` is none of them."""
_WHITE_SPACE = re.compile(r"\s+")
_START_DIGITS = 9
"""Maximum digits of a list's first number. Source: CommonMark 0.31, section 5.2"""
_TEXT_INPUTS = frozenset({"text", "number", "date", "time", "datetime-local", "month", "week", "email", "tel", "url"})
_LISTS = frozenset({"ul", "ol", "menu"})


_CLOSED_BY_OTHERS = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "body", "head", "html", "p", "li", "dd", "dt", "option", "optgroup", "rb", "rp", "rt", "rtc",
        "caption", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr",
    }
)  # fmt: skip
"""Void elements, and elements that the next one of their kind closes.

Source: https://html.spec.whatwg.org/multipage/syntax.html, "Void elements" and "Optional tags"
"""
_XHTML = re.compile(r"<\?xml|http://www\.w3\.org/1999/xhtml")
_CLOSED = re.compile(r"<(a|b|div|em|i|iframe|p|script|span|style|td|textarea|th|title|tr)(\s[^<>]*)?/>", re.IGNORECASE)
"""Empty elements of XHTML, which are never closed in HTML."""
_FOREIGN = ("svg", "math")
_BREAKS = re.compile(r"</?(?:" + "|".join((*sorted(_BLOCKS), "br", "h[1-6]")) + r")\b", re.IGNORECASE)
_TAG_NAME = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)")
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
FREE_STEPS = 5_000_000
"""Open elements summed over all tags, since the parser may visit all of them at each tag. Any page may have this many."""
STEPS_A_CHARACTER = 8
"""Additional ones allowed per character of a page. Real pages have some 20 open elements and a tag every 20 characters."""


def _nests_too_deeply(text: str) -> bool:
    """Return True if building the page's tree may take time quadratic in its length."""
    allowed = FREE_STEPS + STEPS_A_CHARACTER * len(text)
    counts: Counter[str] = Counter()
    depth = steps = foreign = 0
    for end, name in _TAG_NAME.findall(text):
        name = name.lower()
        if name in _CLOSED_BY_OTHERS and not foreign:
            continue
        foreign += 0 if name not in _FOREIGN else -1 if end and foreign else 0 if end else 1
        if not end:
            counts[name] += 1
            depth += 1
        elif counts[name]:
            counts[name] -= 1
            depth -= 1
        steps += depth
        if steps > allowed:
            return True
    return False


def _without_structure(text: str, warnings: list[str]) -> Parsed:
    """Return the text of a page as plain paragraphs."""
    title = _TITLE.search(text)
    bare = strip_html(_BREAKS.sub(r"\n\n\g<0>", text))
    return Parsed(
        drafts=paragraphs(bare),
        title=one_line(strip_html(title.group(1))) or None if title else None,
        warnings=[*warnings, "The page's elements are nested too deeply; it was indexed as plain text."],
    )


class _OpenList(msgspec.Struct):
    """An open list: the next number, its form, and how numbers go on. A list of bullets has no form."""

    form: str = ""
    number: int = 1
    step: int = 1


def _list(node: Any, tag: str) -> _OpenList:
    if tag != "ol":
        return _OpenList()
    reverse = "reversed" in node.attributes
    first = sum(one.tag == "li" for one in children(node)) if reverse else 1
    return _OpenList(
        form=FORMS.get(node.attributes.get("type") or "1", "decimal"),
        number=_number(node.attributes.get("start"), first),
        step=-1 if reverse else 1,
    )


class _Close:
    """Stack entry that marks the end of an element's children."""

    __slots__ = ("tag",)

    def __init__(self, tag: str) -> None:
        self.tag = tag


class _Walker:
    def __init__(self, *, all_of_it: bool = False) -> None:
        self._all = all_of_it
        self.drafts: list[BlockDraft] = []
        self._inline: list[str] = []
        self._lists: list[_OpenList] = []
        self._items: list[str] = []
        self._marker = ""

    def walk(self, root: Any) -> list[BlockDraft]:
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
            attributes = node.attributes
            if (tag in _DROPPED and FOLD not in attributes) or tag.startswith(("-", "!")):
                continue
            if is_hidden(tag, attributes) or (
                not self._all and node is not root and is_boilerplate(node, tag, attributes)
            ):
                continue
            if self._whole(node, tag):
                continue
            self._open(node, tag)
            stack.append(_Close(tag))
            stack.extend(reversed(list(children(node))))
        self._flush()
        self._end_list()
        return self.drafts

    def _whole(self, node: Any, tag: str) -> bool:
        """Read an element that is taken as a whole; return True if this was one."""
        if tag in _HEADINGS:
            self._flush()
            self._end_list()
            text = inline_text(node).strip("¶").strip()
            if any((link.text() or "").strip() == "#" for link in node.css("a")):
                text = text.removesuffix("#").removeprefix("#").strip()
            text = _SIGNS.sub("", text)
            if text:
                self.drafts.append(BlockDraft(kind="heading", text=text, level=_HEADINGS[tag], anchor=_anchor(node)))
        elif tag == "pre":
            self._flush()
            text = code_text(node)
            if self._lists:
                self._add_lines(text.split("\n"))
            else:
                self.drafts.append(BlockDraft(kind="code", text=text))
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._inline.append(f" {described(node.attributes.get('alt'))} ")
        elif tag in {"sup", "sub"}:
            self._inline.append(script(node, tag, "".join(self._inline[-3:])))
        elif tag == "input":
            self._inline.append(box(node.attributes) or _filled(node.attributes))
        elif tag == "select":
            self._inline.extend(f" {option.text() or ''} " for option in node.css("option[selected]"))
        elif tag == "textarea":
            self._inline.append(f" {node.text() or ''} ")
        elif tag == "svg":
            self._inline.extend(f" {text} " for text in labels(node))
        elif tag == "math":
            self._inline.append(formula(node))
        elif tag == "table" and (found := grid(node)) is not None:
            self._flush()
            if self._lists:
                self._add_lines([found.caption, *map(line, (found.header or (), *found.rows))])
                return True
            if found.caption:
                self.drafts.append(BlockDraft(kind="paragraph", text=found.caption))
            self.drafts.extend(table(found.rows, header=found.header))
        else:
            return False
        return True

    def _open(self, node: Any, tag: str) -> None:
        if tag in _LISTS:
            self._flush()
            self._lists.append(_list(node, tag))
        elif tag == "li":
            self._flush()
            one = self._lists[-1] if self._lists else _OpenList()
            if one.form:
                one.number = _number(node.attributes.get("value"), one.number)
            self._marker = f"{numeral(one.number, one.form)}. " if one.form else "- "
            one.number += one.step
        elif tag in STRUCK_TAGS:
            self._inline.append(STRUCK)
        elif tag in _BLOCKS:
            self._flush()

    def _close(self, tag: str) -> None:
        if tag in _LISTS:
            self._flush()
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag in STRUCK_TAGS:
            self._inline.append(STRUCK)
        elif tag in _BLOCKS:
            self._flush()

    def _flush(self) -> None:
        text = apart("".join(self._inline))
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
                BlockDraft(kind="paragraph", text="\n".join(filter(None, map(one_line, text.split("\n")))))
            )

    def _add_lines(self, lines: Iterable[str]) -> None:
        """Add lines to the item of a list, as they are."""
        indent = "  " * min(len(self._lists) - 1, 8)
        for text in filter(str.strip, lines):
            self._items.append(indent + (self._marker or "  ") + text)
            self._marker = ""

    def _end_list(self) -> None:
        if self._items:
            self.drafts.append(BlockDraft(kind="list", text="\n".join(self._items)))
            self._items = []


def _filled(attributes: dict[str, str | None]) -> str:
    """Return what an input for text shows."""
    return f" {attributes.get('value') or ''} " if (attributes.get("type") or "text").lower() in _TEXT_INPUTS else ""


def _anchor(heading: Any) -> str | None:
    """Return the name by which a link leads to a heading: its own, that of an element in it, or of the section that it begins."""
    if own := heading.attributes.get("id"):
        return own
    for node in heading.css("a, span"):
        if name := node.attributes.get("id") or (node.attributes.get("name") if node.tag == "a" else None):
            return name
    section, before = heading.parent, heading.prev
    while before is not None and before.tag in ("-text", "-comment") and not (before.text_content or "").strip():
        before = before.prev
    if section is not None and before is None and section.tag in ("section", "div"):
        return section.attributes.get("id") or None
    return None


def _number(written: str | None, default: int) -> int:
    return int(written) if written and written.isdecimal() and len(written) <= _START_DIGITS else default


def parse(data: bytes) -> Parsed:
    """Return the blocks of an HTML file."""
    named = _CHARSET.search(data[:_HEAD_BYTES])
    decoded, warnings = decode(data, named.group(1).decode("ascii") if named else None)
    return html(decoded, warnings)


def html(decoded: str, warnings: list[str], *, whole: bool = True) -> Parsed:
    """Return the blocks of a page, or of a part of another document, in which nothing belongs to a site (`whole` False)."""
    from selectolax.lexbor import LexborHTMLParser

    text = clean(decoded)
    if _nests_too_deeply(text):
        return _without_structure(text, warnings)
    tree = LexborHTMLParser(_CLOSED.sub(r"<\1\2></\1>", text) if _XHTML.search(text[:1000]) else text)
    prepare(tree)
    head = tree.css_first("head title, body > title")  # pictures have titles, too
    author = tree.css_first("meta[name=author]")
    body = tree.body or tree.root
    return Parsed(
        drafts=[] if body is None else _drafts(tree, body) if whole else _Walker(all_of_it=True).walk(body),
        title=one_line(head.text()) or None if head is not None else None,
        author=author.attributes.get("content") if author is not None else None,
        warnings=warnings,
    )


def _drafts(tree: Any, body: Any) -> list[BlockDraft]:
    root = content(tree, body)
    drafts = _Walker().walk(root)
    if root is not body and not any(draft.kind == "heading" and draft.level == 1 for draft in drafts):
        titles = [title for title in tree.css("h1") if not is_hidden("h1", title.attributes)]
        if len(titles) == 1 and (text := inline_text(titles[0])):
            drafts.insert(0, BlockDraft(kind="heading", text=text, level=1, anchor=_anchor(titles[0])))
    return drafts or _Walker(all_of_it=True).walk(body)
