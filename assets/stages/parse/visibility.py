"""Decide what of a page its readers see: what is hidden for good goes; panels of tabs and accordions, which a click shows, stay."""

import re
from typing import Any

ROLES = frozenset({"navigation", "search", "contentinfo", "menu", "menubar", "toolbar"})
"""Roles of what leads to other pages."""
_MAX_CLASSES = 30
_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_PANEL = re.compile(
    r"expand-content|panel-collapse|(?:[\w-]+-)?accordion-(?:content|panel|body|collapse)|(?:mw-)?collapsible-content"
)
"""Classes of folded panels of Confluence, Bootstrap, jQuery UI and MediaWiki, as whole names."""
_FOLDS = re.compile(
    r"expand-control|(?:[\w-]+[-_])?(?:accordion|collapsible)(?:[-_](?:button|header|title|heading|trigger|toggle))?"
)
"""Classes of the buttons that show them."""
_NO_PANELS = ROLES | {"dialog", "alertdialog"}
_LINE_NUMBERS = ", ".join(
    (
        *(f"td.{name}" for name in ("linenos", "lineno", "lntd", "gutter", "rouge-gutter", "line-numbers")),
        *(f"pre .{name}" for name in ("linenos", "lineno", "lnt", "ln")),
    )
)
"""Cells and spans of Pygments, Rouge and Chroma; some of these classes are also those of the code itself."""
_SIZE = re.compile(r"(?:^|;)\s*+font-size\s*+:\s*+([^;!]*)", re.IGNORECASE)
_NO_SIZE = re.compile(r"0+(?:\.0*)?(?:[a-z]+|%)?\s*", re.IGNORECASE)
FOLD = "data-fold"
"""Attribute of a button that is the heading of a panel."""
_DIALOGS = "[role=dialog], [role=alertdialog], [aria-modal=true], dialog[open]"
_MOST_DIALOGS = 20
"""Dialogs of a page that are looked at: one is open."""
_MATH = "mwe-math-mathml"
"""Class of MediaWiki's formulas, which are hidden behind pictures of them."""


def is_hidden(tag: str, attributes: dict[str, str | None]) -> bool:
    """Return True if browsers do not show the element. Panels of tabs and accordions are hidden until they are chosen: content."""
    if not attributes:
        return tag == "dialog"
    if tag == "dialog" and "open" not in attributes:
        return True
    if "hidden" in attributes:
        return attributes["hidden"] != "until-found" and not _is_panel(attributes)
    if attributes.get("aria-hidden") == "true":
        return not _is_panel(attributes)
    if _MATH in (attributes.get("class") or ""):
        return False
    style = attributes.get("style")
    return style is not None and _UNSEEN.search(style) is not None and not _is_panel(attributes)


def _is_panel(attributes: dict[str, str | None]) -> bool:
    role = attributes.get("role")
    return (
        role == "tabpanel"
        or (role == "region" and "aria-labelledby" in attributes)
        or any(map(_PANEL.fullmatch, classes(attributes)))
    )


def classes(attributes: dict[str, str | None]) -> list[str]:
    return (attributes.get("class") or "").split()[:_MAX_CLASSES]


def prepare(tree: Any) -> None:
    """Make hidden what a page does not show, and shown what it shows on demand, before its tree is walked."""
    _unfold(tree)
    _show_covered(tree)
    _hide_line_numbers(tree)
    _hide_replaced(tree)
    _hide_sizeless(tree)


def _unfold(tree: Any) -> None:
    """Show the elements that a control of the page shows, and mark the buttons that are headings of panels with `FOLD`."""
    controls = [node.attributes for node in tree.css("[aria-controls]") if not is_hidden(node.tag, node.attributes)]
    named = {name for attributes in controls for name in _controlled(attributes)}
    panels = {
        name: node
        for node in (tree.css("[id]") if named else ())
        if (name := node.attributes["id"]) in named
        and node.tag not in {"nav", "dialog"}
        and node.attributes.get("role") not in _NO_PANELS
    }
    for node in panels.values():
        for name in {"hidden", "aria-hidden", "style"} & node.attributes.keys():
            del node.attrs[name]
    for button in tree.css("button"):
        attributes = button.attributes
        if attributes.get("role") != "tab" and (
            any(name in panels for name in _controlled(attributes)) or any(map(_FOLDS.fullmatch, classes(attributes)))
        ):
            button.attrs[FOLD] = ""


def _show_covered(tree: Any) -> None:
    """Show a page that was saved while a dialog was open beside it, which hides the rest from screen readers alone."""
    covered = tree.css("body > [aria-hidden=true]")
    if covered and any(map(_is_open, tree.css(_DIALOGS)[:_MOST_DIALOGS])):
        del max(covered, key=lambda node: len((node.text() or "").split())).attrs["aria-hidden"]


def _is_open(dialog: Any) -> bool:
    while dialog is not None:
        if is_hidden(dialog.tag, dialog.attributes):
            return False
        dialog = dialog.parent
    return True


def _hide_line_numbers(tree: Any) -> None:
    """Hide the numbers beside lines of code."""
    for node in tree.css(_LINE_NUMBERS):
        if not (node.text() or "").strip("0123456789 \n") and (
            node.tag != "td" or node.css_first("pre, div") is not None
        ):
            node.attrs["hidden"] = ""


def _hide_replaced(tree: Any) -> None:
    """Hide deleted text that an insertion follows directly."""
    for node in tree.css("del"):
        after = node.next
        if after is not None and after.tag == "-text" and not (after.text_content or "").strip():
            after = after.next
        if after is not None and after.tag == "ins":
            node.attrs["hidden"] = ""


def _hide_sizeless(tree: Any) -> None:
    """Hide text whose size is 0. Around elements with a style of their own, that is only the size of the space between them."""
    for node in tree.css("[style]"):
        sizes = _SIZE.findall(node.attributes["style"] or "")
        if (
            sizes
            and _NO_SIZE.fullmatch(sizes[-1])
            and all(one.mem_id == node.mem_id for one in node.css("[style], [class], font"))
        ):
            node.attrs["hidden"] = ""


def _controlled(attributes: dict[str, str | None]) -> list[str]:
    return (attributes.get("aria-controls") or "").split()
