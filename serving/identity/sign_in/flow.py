"""The authorization code flow with PKCE: from the button to the session.

The `state` is bound to the browser by a cookie and good for one sign-in, which Postgres records: nothing is stored before a provider
vouches for someone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import jwt
from litestar.datastructures import Cookie

from resources.settings import Settings
from serving.http.database import Database
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from serving.identity.sign_in.browsers import bound, is_bound
from serving.identity.sign_in.claims import ProviderIdentity, signed_in
from serving.identity.sign_in.provider import Provider, Tokens
from serving.identity.sign_in.refusals import SignInRefusedError
from sql.serving import WebReads

MAX_PATH = 3000
"""The longest path to return to is that of the page on which an agent's request is allowed."""


class Finished(NamedTuple):
    """Completed sign-in: the user, the provider's tokens, and the path to return to."""

    identity: ProviderIdentity
    tokens: Tokens
    after: str


def own_path(text: str) -> str:
    """Return a path of this service to return to after the sign-in; `/` for anything else, such as another site's address."""
    plain = text.startswith("/") and not text.startswith("//") and "\\" not in text and " " not in text
    if not plain or len(text) > MAX_PATH or not (text.isascii() and text.isprintable()):
        return "/"
    parts = urlsplit(text)
    own = not parts.scheme and not parts.netloc and not parts.path.startswith(("/sign-in", "/sign-out"))
    return text if own else "/"


class Flow:
    def __init__(self, settings: Settings, keys: tuple[str, ...], database: Database) -> None:
        self._settings = settings
        self._attempts = Attempts(keys, "sign-in")
        self._reads = WebReads(database)

    def callback(self, provider: Provider) -> str:
        """Return the redirect URI. Each provider has its own, so that none can be taken for another. Source: RFC 9700 4.4.2.2."""
        return f"{self._settings.base_url}/sign-in/{provider.setting.slug}/callback"

    async def begin(self, provider: Provider, after: str, browser: str, now: datetime) -> tuple[str, Cookie]:
        """Return the address of the provider's page and the cookie that binds the sign-in to this browser.

        `browser` is the cookie's value so far, so that several tabs may sign in at a time. Raises `ProviderDownError`.
        """
        attempt, binding = str(uuid.uuid4()), bound(self._settings, browser)
        # read again for each sign-in: a provider that is down gets a page of ours instead of the browser's
        setting, metadata = provider.setting, await provider.metadata(max_age=0)
        state = self._attempts.signed(
            attempt, now + LIFETIME, provider=setting.slug, after=own_path(after), browser=binding.digest
        )
        address = self._attempts.address(
            metadata.authorization_endpoint,
            attempt,
            state,
            {
                **setting.parameters,
                "client_id": setting.client_id,
                "scope": " ".join(setting.scopes),
                "redirect_uri": self.callback(provider),
                "nonce": self._attempts.secret("nonce", attempt),
            },
        )
        return address, binding.cookie

    def after(self, state: str) -> str:
        """Return the path to which a sign-in that failed was to return."""
        return own_path(self._attempts.claimed(state, "after"))

    async def finish(self, provider: Provider, answer: Mapping[str, str], browser: str, now: datetime) -> Finished:
        """Return who signed in, according to the provider's callback. Raises `SignInRefusedError` and `ServiceUnavailableError`."""
        state = self._checked_state(provider, answer.get("state", ""), browser)
        attempt = str(state["jti"])
        if await self._reads.sign_in_used(sign_in_id=attempt):
            raise _replayed()
        metadata = await provider.metadata()
        named = "iss" in answer or metadata.authorization_response_iss_parameter_supported
        if named and answer.get("iss") != metadata.issuer:
            raise SignInRefusedError("issuer", "The answer comes from another provider. Please start again.")
        if "error" in answer:
            denied = answer["error"] == "access_denied"
            reason = "denied" if denied else "provider-error"
            raise SignInRefusedError(
                reason, f"The sign-in at {provider.setting.name} was not completed. You can try again."
            )
        if not answer.get("code"):
            raise SignInRefusedError("no-code", f"{provider.setting.name} sent no code. Please start again.")
        attempts = self._attempts.of(answer["state"])
        tokens = await provider.exchange(attempts.grant(attempt, answer["code"], self.callback(provider)))
        identity = await signed_in(provider, tokens, attempts.secret("nonce", attempt))
        if not await self._reads.sign_in_use(
            sign_in_id=attempt,
            provider=provider.setting.slug,
            claim=str(uuid.uuid4()),
            now=now,
            expires_at=now + LIFETIME,
        ):
            raise _replayed()
        return Finished(identity, tokens, own_path(str(state["after"])))

    def _checked_state(self, provider: Provider, text: str, browser: str) -> Mapping[str, object]:
        try:
            state = self._attempts.opened(text)
        except jwt.ExpiredSignatureError:
            raise SignInRefusedError(
                "too-late", "This sign-in took longer than ten minutes. Please start again."
            ) from None
        except jwt.InvalidTokenError:
            raise SignInRefusedError("state", "This sign-in was not started here. Please start again.") from None
        if state.get("provider") != provider.setting.slug:
            raise SignInRefusedError("provider", "This sign-in was started with another provider. Please start again.")
        if not is_bound(state.get("browser"), browser):
            raise SignInRefusedError("browser", "This sign-in was started in another browser. Please start again here.")
        return state


def _replayed() -> SignInRefusedError:
    return SignInRefusedError("replayed", "This sign-in was already completed. Please start again.")
