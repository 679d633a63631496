"""The pages on which a person allows an agent to connect."""

from html import escape

from litestar import Response

from resources.core.domain import Access
from serving.agents.connections import AgentRequest
from serving.agents.events import host
from serving.web.docs import page
from serving.web.render import view


def consent_page(request: AgentRequest, secret: str, access: Access) -> Response[str]:
    """Return the page that says what an agent asks for, and asks whether to allow it."""
    return view(
        "consent.html",
        access,
        name=request.name,
        host=host(request.redirect_uri),
        publisher=request.publisher,
        secret=secret,
    )


def decided_page(address: str, *, allowed: bool) -> Response[str]:
    """Return the page that goes on to the agent. A redirect would need its address in the policy for forms."""
    title = "Connected" if allowed else "Not connected"
    return page(
        title,
        f'<h1>{title}</h1><p><a class="button" href="{escape(address, quote=True)}">Back to the agent</a></p>',
        refresh=address,
    )


def wrong_page(address: str) -> Response[str]:
    """Return the page for a request that failed before a person decided, with a link to the site that is told why.

    Anyone can register a site, so a link to us alone sends no one there. Source: RFC 9700 4.11.2.
    """
    back = f'<a class="button" href="{escape(address, quote=True)}">Back to {escape(host(address))}</a>'
    return page(
        "Not connected",
        "<h1>Not connected</h1><p>The application could not be connected. Go back only if you know this address: it is told why.</p>"
        f"<p>{back}</p>",
        400,
    )


def over_page() -> Response[str]:
    """Return the page for a request that is unknown, too old or decided on."""
    return page(
        "Nothing to decide",
        "<h1>Nothing to decide</h1><p>This request is older than ten minutes, or was answered already. Start again in the agent.</p>",
        404,
    )
