"""The HTML of signing in and out. Everything is escaped; only passkeys need a script, and one saves a click after signing out."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from litestar import Response

from resources.sample_people import SamplePerson
from serving.identity.sign_in.provider import Provider, SignOutForm
from serving.web.docs import page
from serving.web.render import SCRIPT_POLICY, view


class Ways(NamedTuple):
    """The ways to sign in that an installation offers."""

    providers: Sequence[Provider]
    people: Sequence[SamplePerson]
    """Those of the sample company, if it may be tried out."""
    email: bool = False
    """True if a link is sent by email."""
    passkeys: str = ""
    """The origin at which passkeys are accepted; empty if none are."""


def sign_in_page(ways: Ways, after: str, *, note: str = "", status: int = 200) -> Response[str]:
    """Return the page with all ways to sign in. `after` is the path to go on to."""
    script = "passkey.js" if ways.passkeys else None
    return view("sign_in.html", status=status, script=script, ways=ways, after=after, note=note)


def sent_page() -> Response[str]:
    """Return the page after asking for a link, which is the same for every address."""
    return page(
        "Check your email",
        "<h1>Check your email</h1><p role=status>If you may sign in here, a link is on its way. It is valid for 15 minutes and works "
        '<b>once</b>.</p><p>Nothing there? Check your spam folder, then <a href="/sign-in">ask again</a>.</p>',
    )


def unknown_page() -> Response[str]:
    """Return the page for a way to sign in that this installation does not have."""
    body = '<h1>Unknown sign-in</h1><p>There is no such way to sign in here.</p><p><a class="button" href="/sign-in">Sign in</a></p>'
    return page("Unknown sign-in", body, 404)


def failure_page(message: str, after: str, status: int) -> Response[str]:
    """Return the page of a sign-in that failed, with what to do next."""
    again = f"/sign-in?next={quote(after, safe='')}"
    return page(
        "Not signed in",
        f'<h1>You are not signed in</h1><p role=alert>{escape(message)}</p><p><a class="button" href="{again}">Try again</a></p>'
        "<p>If it keeps failing, tell the person who runs Concordance what this page says.</p>",
        status,
    )


def signed_in_as(email: str) -> str:
    """Return a line that says who is signed in, with the button to sign out."""
    return (
        f'<form class="account" method="post" action="/sign-out"><span>Signed in as <b>{escape(email)}</b></span> '
        "<button>Sign out</button></form>"
    )


def already_page(email: str, after: str) -> Response[str]:
    target = escape(after, quote=True)
    return page(
        "Sign in",
        f'<h1>You are signed in</h1>{signed_in_as(email)}<p><a class="button" href="{target}">Continue</a></p>',
    )


def signed_out_page(form: SignOutForm | None) -> Response[str]:
    """Return the page after signing out. It goes on to the provider's own page for that, if there is one, by a form."""
    answer = view("signed_out.html", script="leave.js" if form else None, form=form)
    if form is not None:  # browsers apply `form-action` to the provider's redirects as well, whose hosts are unknown
        answer.headers["Content-Security-Policy"] = "; ".join(
            one for one in SCRIPT_POLICY.split("; ") if not one.startswith("form-action ")
        )
    return answer
