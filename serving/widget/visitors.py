"""Anonymous visitors of widgets: their tokens, their access, and the limits on their questions.

A program can send any `Origin`. A token therefore gives nothing but what is public and in the widget's collection, and the
limits bound what questions cost.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from resources.core.domain import Access
from resources.core.permissions import PUBLIC
from resources.settings import Widget
from serving.answers.service import Answers
from serving.http.errors import ProblemError, UnauthorizedError, rate_limited
from serving.http.sign_ins import UNKNOWN_FACTOR
from serving.identity.tokens import ISSUER, claims_of, sign
from sql.serving import WebReads

AUDIENCE = "concordance-widget"
LIFETIME = timedelta(minutes=10)
READABLE = {"Access-Control-Allow-Origin": "*"}
"""Lets the widget say that it is not set up for its page. Without it, a browser does not tell a refusal from a service that is down."""
VISITOR_QUESTIONS = 10
"""Questions a minute from one address."""


def visitor_of(widget: Widget) -> Access:
    """Return the access of a widget's visitors. Its name can be no one's email."""
    return Access(email=f"widget:{widget.name}", principals=frozenset({PUBLIC}))


def issue(key: str, widget: Widget, origin: str, lifetime: timedelta = LIFETIME) -> str:
    """Return a token for questions that pages of this origin ask this widget about its collection."""
    now = datetime.now(UTC)
    bound = {"sub": visitor_of(widget).email, "origin": origin, "collection": widget.collection}
    return sign(key, {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime, **bound})


def check(token: str, keys: Sequence[str], widget: Widget, origin: str, grace: float) -> Access:
    """Return the access that a widget's token gives to a page of this origin. Raises `UnauthorizedError`.

    `grace` says for how many seconds it may have expired.
    """
    renew = f"Request a new token: POST /api/widget/{widget.name}/token"
    try:
        claims = claims_of(token, keys, AUDIENCE, grace=grace)
    except UnauthorizedError as error:
        raise UnauthorizedError(error.slug, f"This is not a valid token of this widget. {renew}") from None
    visitor = visitor_of(widget)
    if (claims["sub"], claims.get("origin"), claims.get("collection")) != (visitor.email, origin, widget.collection):
        raise UnauthorizedError("token-invalid", f"This token is of another widget, origin or collection. {renew}")
    return visitor


class Widgets:
    """The declared widgets and the limits on their visitors' questions, which Postgres counts for all services of an installation."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.http = answers.http
        self.identity = answers.identity
        self._widgets = {one.name: one for one in self.http.settings.widgets}
        self._reads = WebReads(self.http.database)
        self._key = self.http.key.encode()

    def for_page(self, name: str, origin: str) -> Widget:
        """Return the widget. Raises the problem `not-found`, or `origin-foreign` if pages of this origin may not show it."""
        widget = self._widgets.get(name)
        if widget is None:
            raise ProblemError(
                "not-found", "There is no such widget. CONCORDANCE_WIDGETS declares widgets.", headers=READABLE
            )
        if origin not in widget.origins:
            raise ProblemError(
                "origin-foreign",
                "This widget is for other sites. Add the page's origin to it in CONCORDANCE_WIDGETS.",
                headers=READABLE,
            )
        return widget

    async def count_question(self, widget: Widget, address: str, now: datetime) -> None:
        """Count a question from an address, empty if unknown. Raises the problem `rate-limited`, and `ServiceUnavailableError`."""
        most = VISITOR_QUESTIONS * (1 if address else UNKNOWN_FACTOR)
        counted = await self._reads.widget_question(
            widget=widget.name,
            a_day=widget.daily_questions,
            visitor=hmac.digest(self._key, f"widget visitor {address}".encode(), hashlib.sha256),
            a_minute=most,
        )
        if counted.allowed:
            return
        if counted.used_up:
            tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            wait = (tomorrow - now).total_seconds()
            raise rate_limited(f"At most {widget.daily_questions} questions a day from all visitors.", wait)
        raise rate_limited(f"At most {most} questions a minute.", counted.seconds)
