"""The HTML of signing in and out. Everything is escaped; no page needs a script, which only saves a click after signing out."""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from litestar import Response

from resources.sample_people import SamplePerson
from serving.identity.sign_in.provider import Provider, SignOutForm
from serving.web.docs import page
from serving.web.render import SCRIPT_POLICY, view

NOBODY_YET = (
    "<p>Signing in is not set up here yet. The person who runs Concordance can connect your company's accounts: the guide is "
    "<code>docs/sign-in.md</code>, the setting <code>CONCORDANCE_OIDC_PROVIDERS</code>.</p>"
    "<p>Until then, <code>concordance sign-in you@company.com</code> on the machine that runs Concordance prints a link that signs you in "
    "once. With <code>--administrator</code>, you also see the pages of operators.</p>"
)


def sign_in_page(
    providers: Sequence[Provider], people: Sequence[SamplePerson], after: str, *, note: str = "", status: int = 200
) -> Response[str]:
    """Return the page with a button for each provider, and for each person of the sample company if it may be tried out."""
    hint = f"<p role=alert>{escape(note)}</p>" if note else ""
    intro = "<p>Use your company account. You will find what you may read, and nothing else.</p>" if providers else ""
    buttons = "".join(
        f'<p><a class="button" href="/sign-in/{quote(one.setting.slug)}?next={quote(after, safe="")}">'
        f"Continue with {escape(one.setting.name)}</a></p>"
        for one in providers
    )
    body = f"<h1>Sign in</h1>{hint}{intro}{buttons}{_people(people, after)}"
    if not providers and not people:
        body += NOBODY_YET
    return page("Sign in", body, status)


def _people(people: Sequence[SamplePerson], after: str) -> str:
    if not people:
        return ""
    buttons = "".join(
        f'<li><button name="person" value="{escape(one.id, quote=True)}"><b>{escape(one.name)}</b> {escape(one.role)}'
        f'<span class="tiny soft">{escape(one.sees)}</span></button></li>'
        for one in people
    )
    return (
        "<p>This installation tries out the sample company. Choose whom to be: each person finds different documents.</p>"
        f'<form method="post" action="/sign-in/sample"><input type="hidden" name="next" value="{escape(after, quote=True)}">'
        f'<ul class="people">{buttons}</ul></form>'
    )


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
