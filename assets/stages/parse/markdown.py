"""Parse Markdown, MDX and malformed Markdown into headings with anchors, paragraphs, lists, tables and code.

Anchors follow the rules of GitHub and Docusaurus, so that a citation links to the heading. Emphasis and link targets are
dropped from prose: they cost tokens and are not searched for. Lists remain Markdown, code is unchanged.
"""

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse import front_matter
from assets.stages.parse.decoding import decode
from assets.stages.parse.html import html
from assets.stages.parse.marks import STRUCK, apart, raised
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import line as row_line
from assets.stages.parse.tables import table
from assets.stages.parse.tags import strip_html
from resources.core.json import list_of

_CUSTOM_ID = re.compile(r"[^}\s]+")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_MARKUP = re.compile(r"[*_`\[\]<>&\\!~]|https?:")
_MDX_LINE = re.compile(
    r"import[ \t]+(?:.*\bfrom[ \t]+)?['\"]|export[ \t]+(?:[{*]|(?:const|let|var)\b.*=|(?:default|async|function|class)\b.*[(){};])"
)
"""Lines of JavaScript, not those of prose or a shell that begin with the same word."""
_ADMONITION = re.compile(r"[ \t]*+:{3,}+[ \t]*+[\w-]*+[ \t]*+")
_FENCE = re.compile(r"^[ \t]{0,3}(```+|~~~+)", re.MULTILINE)

_TABLE = re.compile(r"<table\b", re.IGNORECASE)
_STRUCTURE = re.compile(r"<(?:h[1-6]|li)\b", re.IGNORECASE)
_CONTROLS = re.compile(r"<(?:button|select)\b", re.IGNORECASE)
"""Elements whose text is left out of a page."""
_DELIMITERS = re.compile(r"[ \t]{0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?")
_CODE = re.compile(r"(?<!`)(`+)(?!`)([^`]++)\1(?!`)")
_DEFINITION = re.compile(
    r"\[(?!\^)((?:[^\[\]\\]|\\.){1,999}+)\]:(\s{0,99}+(?:<|[^\s:/#.]{0,999}+(?:[:/#]|\.\S)))?", re.DOTALL
)
"""What may be a definition of a link: its label, and its destination if that looks like an address."""
_LABELLED = re.compile(r"\[[^\[\]\n]{1,999}+\]:")
_USED = re.compile(r"\]\[([^\[\]]{1,999}+)\]|\[([^\[\]]{1,999}+)\]\[\]")
"""The label of a link that is defined elsewhere: `[text][label]`, `[label][]`."""
_CHANGE = re.compile(r"</?(?:del|ins)\b", re.IGNORECASE)
_STRIKE = re.compile(r"</?(?:s|strike)\b", re.IGNORECASE)
_BAR = re.compile(r"(?<!\\)\|")

_TABLE_TOKENS = 10_000
"""Most parts of a table in HTML; one that is not closed by then ends with its block."""

_INLINE_LIMIT = 50_000
"""Longer inline text is kept unparsed: the inline parser is quadratic on hostile input."""


class Slugs:
    """Anchors of one document's headings; repeated headings are numbered.

    Source: https://github.com/Flet/github-slugger, which matches GitHub's rendering and Docusaurus.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def slug(self, heading: str) -> str:
        name = _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
        slug = name
        while slug in self._seen:
            self._seen[name] += 1
            slug = f"{name}-{self._seen[name]}"
        self._seen[slug] = 0
        return slug


@cache
def _block_parser() -> Any:
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import normalizeReference
    from markdown_it.rules_block import reference

    def definition(state: Any, line: int, end: int, silent: bool) -> bool:
        """Read a definition of a link. `[Alice]: yes`, which no link uses, and the note `[^1]: Ibid.` are text.

        `silent`: the line may end a paragraph, but only below such a text.
        """
        found = _DEFINITION.match(state.src, state.bMarks[line] + state.tShift[line])
        if found is None or (
            silent and not _LABELLED.match(state.src, state.bMarks[line - 1] + state.tShift[line - 1])
        ):
            return False
        if "used" not in state.env:
            state.env["used"] = {normalizeReference(one or other) for one, other in _USED.findall(state.src)}
        is_definition = found[2] is not None or normalizeReference(found[1]) in state.env["used"]
        return is_definition and reference(state, line, end, silent)

    parser = MarkdownIt("commonmark", {"maxNesting": 40}).enable("table").disable(["inline", "text_join"])
    parser.block.ruler.at("reference", definition, {"alt": ["paragraph"]})
    return parser


@cache
def _inline_parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": 40}).enable("strikethrough")


def plain(content: str, env: dict[str, Any] | None = None) -> str:
    """Return inline Markdown as readable text: link texts, image descriptions, code in backticks.

    `env` holds the document's definitions of links.
    """
    if not _MARKUP.search(content) or len(content) > _INLINE_LIMIT:
        return content
    pieces: list[str] = []
    script: int | None = None
    start: int | None = None
    end = 0
    for token in _inline_parser().parseInline(content, {} if env is None else env):
        for child in list_of(token.children):
            match child.type:
                case "text":
                    pieces.append(child.content)
                case "code_inline":
                    pieces.append(f"`{child.content}`")
                case "softbreak" | "hardbreak":
                    pieces.append("\n")
                case "image":
                    pieces.append(child.content)
                case "html_inline" if child.content.lower().startswith("<br"):
                    pieces.append("\n")
                case "html_inline" if child.content.lower() == "<sup>":
                    script = len(pieces)
                case "html_inline" if child.content.lower() == "</sup>" and script is not None:
                    pieces[script:] = [raised("".join(pieces[:script][-3:]), "".join(pieces[script:]))]
                    script = None
                case "s_open" | "s_close":
                    pieces.append(STRUCK)
                case "html_inline" if _STRIKE.match(child.content):
                    pieces.append(STRUCK)
                case "html_inline" if (tag := _CHANGE.match(child.content)) is not None:
                    name = tag.group().lower()
                    if name == "<ins" and start is not None and end and not "".join(pieces[end:]).strip():
                        del pieces[start:]  # it was replaced
                    pieces.append(STRUCK)
                    if name == "</del" and not end:
                        end = len(pieces)
                    else:
                        start, end = (len(pieces) if name == "<del" else None), 0
                case _:
                    pass
    return apart("".join(pieces))


def _custom_id(heading: str) -> tuple[str, str | None]:
    """Split `Set up {#install}` into the heading and its anchor."""
    heading = heading.rstrip(" \t")
    start = heading.rfind("{#")
    if start < 0 or not heading.endswith("}") or not _CUSTOM_ID.fullmatch(heading, start + 2, len(heading) - 1):
        return heading, None
    return heading[:start].removesuffix("\\").rstrip(" \t"), heading[start + 2 : -1]


def _without_comments(text: str) -> str:
    """Drop MDX comments; an unclosed one is text."""
    parts: list[str] = []
    position = 0
    while (start := text.find("{/*", position)) >= 0 and (end := text.find("*/}", start + 3)) >= 0:
        parts.append(text[position:start])
        position = end + 3
    return "".join([*parts, text[position:]])


def _without_colons(line: str) -> str:
    """Return the title in the first line of an admonition, and any other line unchanged."""
    mark = _ADMONITION.match(line)
    if mark is None:
        return line
    title = line[mark.end() :].rstrip(" \t")
    return (title[1:-1] if title.startswith("[") and title.endswith("]") else title) + "\n"


def _without_mdx(body: str) -> str:
    """Drop MDX imports, exports and comments and the colons of admonitions, except in code fences."""
    if "import " not in body and "export " not in body and ":::" not in body and "{/*" not in body:
        return body
    parts: list[str] = []
    fence = ""
    prose: list[str] = []

    def flush() -> None:
        text = _without_comments("\n".join(prose))
        parts.append("\n".join(map(_without_colons, text.split("\n"))) if ":::" in text else text)
        prose.clear()

    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            parts.append(line)
            if mark and mark.group(1).startswith(fence):
                fence = ""
        elif mark:
            flush()
            fence = mark.group(1)
            parts.append(line)
        elif not _MDX_LINE.match(line):
            prose.append(line)
    flush()
    return "\n".join(parts)


def _with_pipes(body: str) -> str:
    """Escape vertical bars in code within rows of tables, where they would end the cell and the rest of the row would be lost."""
    lines = body.split("\n")
    index = 1
    while index < len(lines):
        first, index = index, index + 1
        if "|" not in lines[first] or "|" not in lines[first - 1] or not _DELIMITERS.fullmatch(lines[first]):
            continue
        while index < len(lines) and lines[index].strip():
            index += 1
        cells = _cells(lines[first])
        for row in (first - 1, *range(first + 1, index)):
            if "`" in lines[row] and _cells(lines[row]) > cells:
                escaped = _CODE.sub(lambda code: _BAR.sub(r"\\|", code.group()), lines[row])
                if _cells(escaped) == cells:
                    lines[row] = escaped
    return "\n".join(lines)


def _cells(line: str) -> int:
    return len(_BAR.findall(line.strip().strip("|"))) + 1


def _html_table(tokens: list[Any], index: int, env: dict[str, Any]) -> tuple[str, int]:
    """Return a table that is written in HTML and the index after it.

    An empty line within a cell ends the block of HTML, and what follows is Markdown of the same table.
    """
    parts: list[str] = []
    for at, token in enumerate(tokens[index : index + _TABLE_TOKENS], start=index):
        if token.type in ("html_block", "code_block"):
            parts.append(token.content)
            opened, closed = (token.content.lower().rfind(tag) for tag in ("<table", "</table"))
            if closed > opened:
                return "".join(parts), at + 1
            if opened >= 0 and at > index:
                break
        elif token.type == "inline":
            parts.append(f"<p>{escape(plain(token.content, env))}</p>")
        elif token.type == "fence":
            parts.append(f"<pre>{escape(token.content)}</pre>")
    return tokens[index].content, index + 1


def _list_lines(tokens: list[Any], index: int, env: dict[str, Any]) -> tuple[str, int]:
    """Return a list as Markdown lines and the index after it; nested lists are indented by two spaces per level."""
    lines: list[str] = []
    stack: list[int | None] = []
    marker = ""
    while index < len(tokens):
        token = tokens[index]
        index += 1
        match token.type:
            case "bullet_list_open":
                stack.append(None)
            case "ordered_list_open":
                stack.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                stack.pop()
                if not stack:
                    break
            case "list_item_open":
                number = stack[-1]
                marker = f"{number}. " if number is not None else "+ " if token.markup == "+" else "- "
                stack[-1] = None if number is None else number + 1
            case "inline":
                text = plain(token.content, env).strip()
                lines.append("  " * (len(stack) - 1) + (marker or "  ") + text.replace("\n", " "))
                marker = ""
            case "table_open" | "fence" | "code_block" | "html_block":
                if token.type == "table_open":
                    rows, index = _table_rows(tokens, index, env)
                    text = "\n".join(map(row_line, rows))
                else:
                    text = _html_text(token.content) if token.type == "html_block" else token.content
                for part in filter(str.strip, text.split("\n")):
                    lines.append("  " * (len(stack) - 1) + (marker or "  ") + part)
                    marker = ""
            case _:
                pass
    return "\n".join(lines), index


def _html_text(block: str) -> str:
    return "\n".join(draft.text for draft in html(block, []).drafts) if _TABLE.search(block) else strip_html(block)


def _table_rows(tokens: list[Any], index: int, env: dict[str, Any]) -> tuple[list[list[str]], int]:
    rows: list[list[str]] = []
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(plain(token.content, env))
        elif token.type == "table_close":
            break
    return rows, index


def _drafts(body: str) -> Iterator[BlockDraft]:
    env: dict[str, Any] = {}
    tokens: list[Any] = _block_parser().parse(_with_pipes(body), env)
    slugs = Slugs()
    index = 0
    while index < len(tokens):
        token = tokens[index]
        match token.type:
            case "heading_open":
                content = tokens[index + 1].content
                content, custom = _custom_id(content)
                name = one_line(plain(content, env).replace("`", ""))
                anchor = custom or slugs.slug(name)
                if name:
                    yield BlockDraft(kind="heading", text=name, level=int(token.tag[1]), anchor=anchor)
                index += 3
            case "bullet_list_open" | "ordered_list_open":
                text, index = _list_lines(tokens, index, env)
                yield BlockDraft(kind="list", text=text)
            case "table_open":
                rows, index = _table_rows(tokens, index, env)
                yield from table(rows[1:], header=rows[0] if rows else None)
            case "fence" | "code_block":
                yield BlockDraft(kind="code", text=token.content)
                index += 1
            case "html_block" if _TABLE.search(token.content):
                text, index = _html_table(tokens, index, env)
                yield from html(text, []).drafts
            case "html_block" if _STRUCTURE.search(token.content) and not _CONTROLS.search(token.content):
                yield from html(token.content, [], whole=False).drafts
                index += 1
            case "html_block":
                yield BlockDraft(kind="paragraph", text=strip_html(token.content))
                index += 1
            case "inline":
                yield BlockDraft(kind="paragraph", text=plain(token.content, env))
                index += 1
            case _:
                index += 1


def markdown(text: str, *, whole: bool = True) -> Parsed:
    """Return the blocks of Markdown text; its title comes from the front matter or the first top-level heading.

    `whole`: the text is a file, which may begin with front matter.
    """
    text = clean(text)
    fields, text = front_matter.split(text) if whole else ({}, text)
    drafts = list(_drafts(_without_mdx(text)))
    first = next((draft.text for draft in drafts if draft.kind == "heading" and draft.level == 1), None)
    described = [BlockDraft(kind="paragraph", text=text) for text in front_matter.shown(fields)]
    return Parsed(
        drafts=[*described, *drafts],
        title=" ".join(fields.get("title", [])) or first,
        author=", ".join(fields.get("author") or fields.get("authors") or []) or None,
    )


def parse(data: bytes) -> Parsed:
    decoded, warnings = decode(data)
    parsed = markdown(decoded)
    parsed.warnings = warnings
    return parsed
