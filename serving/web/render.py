"""Render the templates of pages. Everything that a template prints is escaped."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, PrefixLoader, StrictUndefined
from litestar import MediaType, Response
from litestar.datastructures import Cookie
from markupsafe import Markup

from resources.core.domain import Access, Role
from serving.http.roles import dagster_rights
from serving.web.formats import FILTERS
from serving.web.static import address

TEMPLATES = Path(__file__).parent / "templates"
OTHER = "file"
"""Before the path of a template elsewhere, with a colon: those of sources are beside their connectors."""
SCRIPT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
"""Content security policy of pages with a script."""


class NavigationLink(NamedTuple):
    """An entry of the navigation."""

    path: str
    name: str


@lru_cache(1)
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                FileSystemLoader(TEMPLATES),
                PrefixLoader({OTHER: FunctionLoader(lambda path: Path(path).read_text("utf-8"))}, ":"),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS)
    environment.globals["static"] = address  # pyright: ignore[reportArgumentType] (the type is that of the defaults)
    return environment


def administration(access: Access) -> str | None:
    """Return the first page of the administration that the caller may open, None if there is none."""
    if access.has(Role.AUDITOR):
        return "/admin"
    if access.has(Role.CURATOR):
        return "/admin/questions"
    return "/admin/usage" if access.has(Role.OPERATOR) else None


def navigation(access: Access | None) -> list[NavigationLink]:
    """Return the pages that the caller may open."""
    if access is None:
        return []
    links = [NavigationLink("/", "Search"), NavigationLink("/history", "History"), NavigationLink("/upload", "Upload")]
    if access.has(Role.OPERATOR, Role.AUDITOR):
        links.append(NavigationLink("/sources", "Sources"))
    if (first := administration(access)) is not None:
        links.append(NavigationLink(first, "Admin"))
    if dagster_rights(access) is not None:
        links.append(NavigationLink("/dagster", "Dagster"))
    return links


def render(template: str, access: Access | None = None, **values: Any) -> Markup:
    """Return the HTML of a template. `access` is that of the person who looks at it, whose name and pages the frame shows."""
    frame: dict[str, Any] = {
        "email": access.email if access else None,
        "navigation": navigation(access),
        "script": None,
    }
    return Markup(_environment().get_template(template).render(frame | values))  # noqa: S704 (escaped by the template)


def view(
    template: str,
    access: Access | None = None,
    status: int = 200,
    cookies: list[Cookie] | None = None,
    script: str | None = None,
    **values: Any,
) -> Response[str]:
    """Return a page, with a module of `static` as its `script`."""
    html = str(render(template, access, script=script, **values))
    headers = {"Content-Security-Policy": SCRIPT_POLICY} if script else {}
    return Response(html, media_type=MediaType.HTML, status_code=status, cookies=cookies, headers=headers)
