"""Google's OAuth 2.0 as far as a connector needs it: consent, codes, access and refresh tokens, service accounts.

Source: https://developers.google.com/identity/protocols/oauth2/web-server and .../service-account
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit, urlunsplit

import jwt
import msgspec

from simulators.drive.workspace import GoogleWorkspace

LIFETIME_SECONDS = 3_599
_NOT_DELEGATED = (
    "Client is unauthorized to retrieve access tokens using this method, "
    "or client not authorized for any of the scopes requested."
)
_SERVICE_ACCOUNT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class OAuthError(Exception):
    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.status = status
        self.body = {"error": error, "error_description": description}


class _Consent(msgspec.Struct):
    account: str
    client: str
    redirect: str
    scope: str
    offline: bool
    challenge: str


class Bearer(NamedTuple):
    """Whom a token acts for, and its scopes."""

    account: str
    scopes: frozenset[str]


class SimulatedOAuth:
    def __init__(self, account: str) -> None:
        self.account = account
        self.chosen = account
        """The account that the user chooses on the consent page."""
        self.consents = True
        """True if the user agrees on the consent page."""
        self.client_secret: str | None = None
        """When set, the only secret that the token endpoint accepts."""
        self.delegated: set[str] | None = None
        """When set, the only scopes that the administrator delegated to service accounts."""
        self._codes: dict[str, _Consent] = {}
        self._refresh: dict[str, Bearer] = {}
        self.workspace: GoogleWorkspace | None = None
        """Its accounts get tokens of their own, by delegation; every other subject acts for the simulator's account."""
        self._access: dict[str, Bearer] = {}
        self._revoked = False

    def bearer(self, token: str) -> Bearer | None:
        """Return whom an access token acts for, and its scopes."""
        return self._access.get(token)

    def expire(self) -> None:
        """Expire every access token; refresh tokens stay valid."""
        self._access.clear()

    def revoke(self) -> None:
        """Revoke everything; service accounts are rejected until `restore`."""
        self._access.clear()
        self._refresh.clear()
        self._codes.clear()
        self._revoked = True

    def withdraw(self, account: str) -> None:
        """Revoke the consent of one account."""
        for tokens in (self._access, self._refresh):
            for token in [token for token, bearer in tokens.items() if bearer.account == account]:
                del tokens[token]

    def restore(self) -> None:
        """Accept service accounts again; users have to give consent again."""
        self._revoked = False

    def authorize(self, query: Mapping[str, str]) -> str:
        """Return the redirect of the consent page: back to the client, with a code or with `access_denied`."""
        for name in ("client_id", "redirect_uri", "response_type", "scope"):
            if not query.get(name):
                raise OAuthError("invalid_request", f"Missing required parameter: {name}")
        answer = {"state": query["state"]} if "state" in query else {}
        if self.consents:
            code = "4/0A" + secrets.token_urlsafe(24)
            offline = query.get("access_type") == "offline"
            self._codes[code] = _Consent(
                self.chosen,
                query["client_id"],
                query["redirect_uri"],
                query["scope"],
                offline,
                query.get("code_challenge", ""),
            )
            answer |= {"code": code, "scope": query["scope"]}
        else:
            answer["error"] = "access_denied"
        parts = urlsplit(query["redirect_uri"])
        return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, urlencode(answer)]))))

    def exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return tokens for a code, a refresh token or a service account's assertion. Raises `OAuthError`."""
        kind = form.get("grant_type", "")
        if kind == _SERVICE_ACCOUNT:
            return self._assert(form.get("assertion", ""))
        if not form.get("client_id") or self.client_secret not in (None, form.get("client_secret")):
            raise OAuthError("invalid_client", "The OAuth client was not found.", 401)
        if kind == "authorization_code":
            return self._redeem(form)
        if kind == "refresh_token":
            granted = self._refresh.get(form.get("refresh_token", ""))
            if granted is None:
                raise OAuthError("invalid_grant", "Token has been expired or revoked.")
            return self._issue(" ".join(sorted(granted.scopes)), granted.account)
        raise OAuthError("unsupported_grant_type", f"Invalid grant_type: {kind}")

    def _redeem(self, form: Mapping[str, str]) -> dict[str, Any]:
        consent = self._codes.pop(form.get("code", ""), None)
        if consent is None or consent.client != form["client_id"]:
            raise OAuthError("invalid_grant", "Malformed auth code.")
        if consent.redirect != form.get("redirect_uri"):
            raise OAuthError("redirect_uri_mismatch", "Bad Request")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if consent.challenge and base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != consent.challenge:
            raise OAuthError("invalid_grant", "Invalid code verifier.")
        tokens = self._issue(consent.scope, consent.account)
        if consent.offline:
            tokens["refresh_token"] = "1//0" + secrets.token_urlsafe(32)
            self._refresh[tokens["refresh_token"]] = Bearer(consent.account, frozenset(consent.scope.split()))
        return tokens

    def _assert(self, assertion: str) -> dict[str, Any]:
        try:
            # the signature cannot be verified: the simulator has no register of service accounts
            claims = jwt.decode(assertion, options={"verify_signature": False})
        except jwt.InvalidTokenError as error:
            raise OAuthError("invalid_grant", "Invalid JWT Signature.") from error
        if self._revoked:
            raise OAuthError("invalid_grant", "Invalid JWT Signature.")
        if not all(claims.get(name) for name in ("iss", "aud", "scope", "iat", "exp")):
            raise OAuthError("invalid_grant", "Invalid JWT: iss, aud, scope, iat and exp are required.")
        if claims.get("sub") and self.delegated is not None and not self.delegated >= set(claims["scope"].split()):
            raise OAuthError("unauthorized_client", _NOT_DELEGATED, 401)
        return self._issue(claims["scope"], self._delegated(str(claims.get("sub") or "")))

    def _delegated(self, subject: str) -> str:
        """Return the account that an assertion acts for. Raises `OAuthError` as Google does for those it may not act for."""
        if self.workspace is None:
            return self.account
        user = self.workspace.users.get(subject)
        if subject in self.workspace.former or (user is not None and user.suspended):
            raise OAuthError("invalid_grant", "Invalid email or User ID")
        if user is not None and user.no_delegation:
            raise OAuthError("unauthorized_client", _NOT_DELEGATED, 401)
        return self.account if user is None else subject

    def _issue(self, scope: str, account: str | None = None) -> dict[str, Any]:
        token = "ya29." + secrets.token_urlsafe(32)
        self._access[token] = Bearer(account or self.account, frozenset(scope.split()))
        return {"access_token": token, "expires_in": LIFETIME_SECONDS, "scope": scope, "token_type": "Bearer"}
