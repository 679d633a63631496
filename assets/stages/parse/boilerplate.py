"""Recognise what is not the content of a page: hidden elements, navigation, footers, cookie banners, buttons to share, related posts.

Pages of documentation must not lose text, so a rule is a declaration of the page (an element, a role, a class with a settled name) and
never a guess by length or position.
"""

import re
from typing import Any

from assets.stages.normalize import one_line

_TAGS = frozenset({"nav"})
_ROLES = frozenset({"navigation", "search", "contentinfo", "menu", "menubar", "toolbar"})
_CONTAINERS = frozenset({"div", "section", "aside", "ul", "ol", "span", "p", "form", "dialog", "footer", "header"})
_BANNER = re.compile(
    r"(?:[\w-]+[-_])?(?:cookies?|consent|gdpr|ccpa)[-_]?(?:banner|bar|notice|consent|popup|modal|message|overlay|dialog|layer)s?"
    r"|onetrust[\w-]*|cc-window|cookieconsent[\w-]*",
    re.IGNORECASE,
)
"""Classes and ids of cookie banners, as whole names. Other ids are those of headings: a section on sharing is `#sharing`."""
_CLASS = re.compile(
    r"(?:(?:social|post|article|entry|page|content)[-_])?(?:share|sharing)(?:[-_](?:buttons?|links?|bar|icons?|tools?|widget|list|this|box))?"
    r"|social[-_](?:links|icons|media|buttons?|bar|nav)|sharedaddy|addtoany[\w-]*|addthis[\w-]*"
    r"|(?:[\w-]+[-_])?related[-_]?(?:posts?|articles?|content|stories|links|pages|items|reading|entries)|jp-relatedposts"
    r"|(?:recommended|more|popular|recent)[-_](?:posts?|articles?|stories|reading)|(?:recommended|popular|recent)[-_]content"
    r"|breadcrumbs?|skip-?(?:to-content|link|nav)|mw-(?:editsection|jump-link|portlet[\w-]*|interlanguage[\w-]*)|noprint|vector-menu"
    r"|site-footer|page-footer|global-footer|footer-body",
    re.IGNORECASE,
)
"""Classes of libraries, templates and wikis, as whole names."""
_IDS = frozenset({"breadcrumb-section", "breadcrumbs", "p-lang-btn"})
"""Ids of wikis. Elsewhere they are those of a section, which has a heading."""
_TITLES = re.compile(
    r"(?:related|similar|recommended|popular|recent) (?:posts?|articles?|stories|content|reading|pages|links)"
    r"|you (?:may|might) also (?:like|enjoy)|recommended for you|more (?:from|like) this.{0,40}"
    r"|share (?:this|on).{0,40}|follow us.{0,40}|(?:ähnliche|verwandte|weitere) (?:artikel|beiträge)"
    r"|articles? (?:liés|similaires|connexes)|das könnte sie auch interessieren",
    re.IGNORECASE,
)
"""First headings of sections that lead to other pages, if most of their text is links: "Share on Teams" may also begin instructions."""
_COOKIES = re.compile(r"cookie", re.IGNORECASE)
_MAX_CLASSES = 30
_MOST_OF_BANNER = 1_200
"""Characters of a cookie banner."""
_CONTENT = ("main", "article", "blockquote", "section")
_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_PANEL = re.compile(
    r"expand-content|panel-collapse|(?:[\w-]+-)?accordion-(?:content|panel|body|collapse)|(?:mw-)?collapsible-content"
)
"""Classes of folded panels of Confluence, Bootstrap, jQuery UI and MediaWiki, as whole names."""
_FOLDS = re.compile(
    r"expand-control|(?:[\w-]+[-_])?(?:accordion|collapsible)(?:[-_](?:button|header|title|heading|trigger|toggle))?"
)
"""Classes of the buttons that show them."""
_NO_PANELS = _ROLES | {"dialog", "alertdialog"}
_LINE_NUMBERS = ", ".join(
    (
        *(f"td.{name}" for name in ("linenos", "lineno", "lntd", "gutter", "rouge-gutter", "line-numbers")),
        *(f"pre .{name}" for name in ("linenos", "lineno", "lnt", "ln")),
    )
)
"""Cells and spans of Pygments, Rouge and Chroma; some of these classes are also those of the code itself."""
FOLD = "data-fold"
"""Attribute of a button that is the heading of a panel."""
_MATH = "mwe-math-mathml"
"""Class of MediaWiki's formulas, which are hidden behind pictures of them."""
_ARTICLE_SHARE = 0.5
"""Least share of the page's text that its only `article` has, to be all of its content."""


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
        or any(map(_PANEL.fullmatch, _classes(attributes)))
    )


def _classes(attributes: dict[str, str | None]) -> list[str]:
    return (attributes.get("class") or "").split()[:_MAX_CLASSES]


def unfold(tree: Any) -> None:
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
            any(name in panels for name in _controlled(attributes)) or any(map(_FOLDS.fullmatch, _classes(attributes)))
        ):
            button.attrs[FOLD] = ""


def hide_line_numbers(tree: Any) -> None:
    """Hide the numbers beside lines of code."""
    for node in tree.css(_LINE_NUMBERS):
        if not (node.text() or "").strip("0123456789 \n") and (
            node.tag != "td" or node.css_first("pre, div") is not None
        ):
            node.attrs["hidden"] = ""


def hide_replaced(tree: Any) -> None:
    """Hide deleted text that an insertion follows directly."""
    for node in tree.css("del"):
        after = node.next
        if after is not None and after.tag == "-text" and not (after.text_content or "").strip():
            after = after.next
        if after is not None and after.tag == "ins":
            node.attrs["hidden"] = ""


def _controlled(attributes: dict[str, str | None]) -> list[str]:
    return (attributes.get("aria-controls") or "").split()


def is_boilerplate(node: Any, tag: str, attributes: dict[str, str | None]) -> bool:
    """Return True for an element that leads to other pages or belongs to the site."""
    if tag in _TAGS or (attributes and attributes.get("role") in _ROLES):
        return True
    if tag not in _CONTAINERS:
        return False
    if tag == "footer" and _is_of_the_page(node):
        return True
    names = _classes(attributes) if attributes else ()
    if any(_CLASS.fullmatch(name) or _BANNER.fullmatch(name) for name in names) and not _has_headline(node):
        return True
    name = (attributes.get("id") or "") if attributes else ""
    if (name in _IDS or _BANNER.fullmatch(name)) and node.css_first("h1, h2, h3") is None:
        return True
    if tag in {"section", "aside", "div"} and (heading := _first_heading(node)) is not None:
        title = one_line(heading.text() or "").rstrip(":… ¶#")
        if _TITLES.fullmatch(title) and _is_mostly_links(node, heading):
            return True
    return _is_cookie_dialog(tag, attributes, node)


def content(tree: Any, body: Any) -> Any:
    """Return the element with the content of a page: its only `main`, or its only `article` if that has most of the text."""
    mains = [node for node in tree.css("main, [role=main]") if not is_hidden(node.tag, node.attributes)]
    if len(mains) == 1 and (mains[0].text() or "").strip():
        return mains[0]
    articles = tree.css("article")
    if not mains and len(articles) == 1:
        length = len((articles[0].text() or "").split())
        if length and length >= _ARTICLE_SHARE * len((body.text() or "").split()):
            return articles[0]
    return body


def _is_of_the_page(node: Any) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag in _CONTENT:
            return False
        parent = parent.parent
    return True


def _has_headline(node: Any) -> bool:
    """Return True if an element that is named like boilerplate has the page's title."""
    return node.css_first("h1, main, article") is not None


def _first_heading(node: Any) -> Any | None:
    child = node.child
    while child is not None and child.tag == "-text" and not (child.text_content or "").strip():
        child = child.next
    return child if child is not None and child.tag in {"h2", "h3", "h4", "h5", "h6"} else None


def _is_mostly_links(node: Any, heading: Any) -> bool:
    """Return True if at least half of the text below the heading is that of links and buttons."""
    linked = _length(*node.css("a, button")) - _length(*heading.css("a, button"))
    return 2 * linked >= _length(node) - _length(heading)


def _length(*nodes: Any) -> int:
    return sum(len(one_line(node.text() or "")) for node in nodes)


def _is_cookie_dialog(tag: str, attributes: dict[str, str | None], node: Any) -> bool:
    if tag != "dialog" and (not attributes or attributes.get("role") not in {"dialog", "alertdialog"}):
        return False
    text = node.text() or ""
    return (
        len(text) <= _MOST_OF_BANNER
        and _COOKIES.search(text) is not None
        and node.css_first("button, input, a") is not None
    )
