"""Recognise what is not the content of a page: navigation, footers, cookie banners, buttons to share, related posts.

Pages of documentation must not lose text, so a rule is a declaration of the page (an element, a role, a class with a settled name) and
never a guess by length or position.
"""

import re
from typing import Any

from assets.stages.normalize import one_line
from assets.stages.parse.visibility import ROLES, classes, is_hidden

_TAGS = frozenset({"nav"})
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
_MOST_OF_BANNER = 1_200
"""Characters of a cookie banner."""
_CONTENT = ("main", "article", "blockquote", "section")
_ARTICLE_SHARE = 0.5
"""Least share of the page's text that its only `article` has, to be all of its content."""


def is_boilerplate(node: Any, tag: str, attributes: dict[str, str | None]) -> bool:
    """Return True for an element that leads to other pages or belongs to the site."""
    if tag in _TAGS or (attributes and attributes.get("role") in ROLES):
        return True
    if tag not in _CONTAINERS:
        return False
    if tag == "footer" and _is_of_the_page(node):
        return True
    names = classes(attributes) if attributes else ()
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
