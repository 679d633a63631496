"""Anonymous visitors of widgets: their tokens, their access, and the limits on their questions.

A program can send any `Origin`. A token therefore gives nothing but what is public and in the widget's collection, and the
limits bound what questions cost.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from resources.core.domain import Access
from resources.core.permissions import PUBLIC
from resources.servers.shared import Shared
from resources.settings import Widget
from serving.access.limits import RateLimit
from serving.access.sign_ins import UNKNOWN_FACTOR
from serving.access.tokens import ISSUER, claims_of, sign
from serving.errors import ProblemError, UnauthorizedError, rate_limited

AUDIENCE = "concordance-widget"
LIFETIME = timedelta(minutes=10)
VISITOR_QUESTIONS = 10
"""Questions a minute from one address."""
_DAY_SECONDS = 24 * 60 * 60


def visitor_of(widget: Widget) -> Access:
    """Return the access of a widget's visitors. Its name can be no one's email."""
    return Access(email=f"widget:{widget.name}", principals=frozenset({PUBLIC}))


def issue(key: str, widget: Widget, origin: str, lifetime: timedelta = LIFETIME) -> str:
    """Return a token for questions that pages of this origin ask this widget about its collection."""
    now = datetime.now(UTC)
    bound = {"sub": visitor_of(widget).email, "origin": origin, "collection": widget.collection}
    return sign(key, {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime, **bound})


def check(token: str, keys: Sequence[str], widget: Widget, origin: str) -> Access:
    """Return the access that a widget's token gives to a page of this origin. Raises `UnauthorizedError`."""
    renew = f"Request a new token: POST /api/widget/{widget.name}/token"
    try:
        claims = claims_of(token, keys, AUDIENCE)
    except UnauthorizedError as error:
        raise UnauthorizedError(error.slug, f"This is not a valid token of this widget. {renew}") from None
    visitor = visitor_of(widget)
    if (claims["sub"], claims.get("origin"), claims.get("collection")) != (visitor.email, origin, widget.collection):
        raise UnauthorizedError("token-invalid", f"This token is of another widget, origin or collection. {renew}")
    return visitor


class Widgets:
    """The declared widgets and the limits on their visitors' questions, for all processes of the service."""

    def __init__(self, widgets: Sequence[Widget], shared: Shared) -> None:
        self._widgets = {one.name: one for one in widgets}
        self._visitors = RateLimit(VISITOR_QUESTIONS, shared, "widget visitors")
        self._unknown = RateLimit(VISITOR_QUESTIONS * UNKNOWN_FACTOR, shared, "widget visitors, unknown")
        self._daily = {
            one.name: RateLimit(one.daily_questions, shared, f"widget {one.name}", seconds=_DAY_SECONDS)
            for one in widgets
        }

    def for_page(self, name: str, origin: str) -> Widget:
        """Return the widget. Raises the problem `not-found`, or `origin-foreign` if pages of this origin may not show it."""
        widget = self._widgets.get(name)
        if widget is None:
            raise ProblemError("not-found", "There is no such widget. CONCORDANCE_WIDGETS declares widgets.")
        if origin not in widget.origins:
            raise ProblemError(
                "origin-foreign", "This widget is for other sites. Add the page's origin to it in CONCORDANCE_WIDGETS."
            )
        return widget

    def count_question(self, widget: Widget, address: str) -> None:
        """Count a question from an address, empty if unknown. Raises the problem `rate-limited`."""
        limit, most = (
            (self._visitors, VISITOR_QUESTIONS) if address else (self._unknown, VISITOR_QUESTIONS * UNKNOWN_FACTOR)
        )
        if (wait := limit.take(address)) > 0:
            raise rate_limited(f"At most {most} questions a minute.", wait)
        if (wait := self._daily[widget.name].take("")) > 0:
            raise rate_limited(f"At most {widget.daily_questions} questions a day from all visitors.", wait)
