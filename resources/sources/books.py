"""URLs of book pages: which page of a Docusaurus site a Markdown file of its `docs` folder becomes.

A page's front matter (`slug`, `id`) is not known when the folder is listed and is not taken into account.
"""

import re
from urllib.parse import quote

_IGNORED = re.compile(r"\d+[-_.]\d+")
_NUMBERED = re.compile(r"\d+\s*[-_.]+\s*(?P<suffix>[^-_.\s].*)")
"""Number prefixes; names that look like a date or a version keep their digits.
Source: Docusaurus, packages/docusaurus-plugin-content-docs/src/numberPrefix.ts."""
_PAGES = (".md", ".mdx", ".markdown")


def page_url(base_url: str, path: str) -> str:
    """Return the URL of the page that a book's file becomes; a file that is not a page keeps its path."""
    base = base_url.rstrip("/")
    *folders, name = path.split("/")
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix}".lower() not in _PAGES:
        return file_url(base_url, path)
    parts = [_without_number(folder) for folder in folders]
    page = _without_number(stem)
    # Source: Docusaurus, packages/docusaurus-plugin-content-docs/src/docs.ts, isCategoryIndex
    index = page.lower() in {"index", "readme", *([parts[-1].lower()] if parts else [])}
    return "/".join([base, *(quote(part, safe="") for part in parts), "" if index else quote(page, safe="")])


def file_url(base_url: str, path: str) -> str:
    """Return the URL of a file that is served as it is."""
    return f"{base_url.rstrip('/')}/{quote(path, safe='/')}"


def is_partial(path: str) -> bool:
    """Return True if Docusaurus leaves a file out of the book: it or a folder above it begins with an underscore."""
    return any(part.startswith("_") for part in path.split("/"))


def _without_number(name: str) -> str:
    if _IGNORED.match(name):
        return name
    found = _NUMBERED.fullmatch(name)
    return found["suffix"] if found else name
