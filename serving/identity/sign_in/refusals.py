"""Reasons for failed sign-ins."""

from resources.core.errors import ServiceUnavailableError
from serving.http.errors import UnauthorizedError


class SignInRefusedError(UnauthorizedError):
    """A sign-in or token of a provider is refused. `reason` is for the audit log; the message is for the person.

    `about_person` is True if the provider says something of the person that refuses them. Otherwise its answer cannot be judged: a
    signature or claim is not as it is set up here, keys have just changed, or a clock is wrong.
    """

    def __init__(self, reason: str, detail: str, email: str = "", *, about_person: bool = False) -> None:
        super().__init__("token-invalid", detail)
        self.reason = reason
        self.email = email
        self.about_person = about_person


class ProviderDownError(ServiceUnavailableError):
    """The provider does not answer, or not as OpenID Connect demands."""


class RefreshRefusedError(Exception):
    """The provider does not renew a session: its user was deactivated there, or the session was ended."""
