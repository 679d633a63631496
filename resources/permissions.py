"""Principals: who may read a document, and who a caller is, written in one form so that the two can be compared.

In come principals as people, sidecars and tokens write them; out come lower-case emails, `group:NAME@DOMAIN`,
`domain:NAME`, `slack:TEAM` and `public`. Both sides of every access decision pass through here: one that is not
understood is refused, never guessed, since a guess could widen who sees a document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from resources.errors import InvalidRequestError

PUBLIC = "public"
FORMS = "an email, group:NAME@DOMAIN, domain:NAME, slack:TEAM or public"
MAX_LENGTH = 320
"""Longest principal in characters. Source: RFC 5321 4.5.3.1 (64 for the local part, `@`, 255 for the domain)."""

_DOMAIN = r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*"
_LOCAL = r"[^\s@:,;<>()\[\]\\\"\x00-\x1f\x7f]+"
_EMAIL = re.compile(rf"{_LOCAL}@{_DOMAIN}")
_DOMAIN_ONLY = re.compile(_DOMAIN)
_TEAM = re.compile(r"[A-Z0-9]+")


def email(text: str) -> str:
    """Return an email in the form that permissions hold it; raises `InvalidRequestError` when it is none."""
    folded = _fold(text)
    if not _EMAIL.fullmatch(folded):
        raise InvalidRequestError(f"{text!r} is not an email address; write it as name@example.com.")
    return folded


def principal(text: str) -> str:
    """Return one principal in its normal form; raises `InvalidRequestError` naming the forms there are."""
    kind, colon, rest = text.strip().partition(":")
    kind = kind.lower() if colon else ""
    if kind == "slack":
        team = rest.strip().upper()
        if _TEAM.fullmatch(team):
            return f"slack:{team}"
    elif kind == "group":
        group = _fold(rest)
        if _EMAIL.fullmatch(group):
            return f"group:{group}"
    elif kind == "domain":
        domain = _fold(rest).removeprefix("@")
        if _DOMAIN_ONLY.fullmatch(domain):
            return f"domain:{domain}"
    elif not colon:
        plain = _fold(text)
        if plain == PUBLIC or _EMAIL.fullmatch(plain):
            return plain
    raise InvalidRequestError(f"{text!r} is not a principal; write {FORMS}.")


def normalize(principals: Iterable[str]) -> tuple[str, ...]:
    """Return the principals in their normal form, sorted, each once. Nobody (no principals) stays nobody."""
    return tuple(sorted({principal(text) for text in principals}))


def principals_of(email_address: str, groups: Iterable[str], slack_teams: Iterable[str] = ()) -> frozenset[str]:
    """Return all that a caller is: email, domain, groups (with or without their prefix), workspaces and `public`.

    A group never becomes anything but a group, whatever it is called. Raises `InvalidRequestError`.
    """
    address = email(email_address)
    found = {address, f"domain:{address.rpartition('@')[2]}", PUBLIC}
    found.update(principal(f"group:{_without('group:', group)}") for group in groups)
    found.update(principal(f"slack:{_without('slack:', team)}") for team in slack_teams)
    return frozenset(found)


def covers(readers: Collection[str], reader: str) -> bool:
    """Return True if whoever holds the principal `reader` is among `readers`: by itself, by the domain of an email, or as everybody."""
    if reader in readers or PUBLIC in readers:
        return True
    return ":" not in reader and f"domain:{reader.rpartition('@')[2]}" in readers


def granted(permissions: Iterable[str], owner: str | None, tags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who may read a document (all in normal form): a draft (`tags.lifecycle = draft`) is its owner's alone."""
    if str(tags.get("lifecycle", "")).strip().lower() == "draft":
        return (owner,) if owner else ()
    return tuple(permissions)


def _without(prefix: str, text: str) -> str:
    text = text.strip()
    return text[len(prefix) :] if text.lower().startswith(prefix) else text


def _fold(text: str) -> str:
    """Return the text stripped, lower-cased and composed (NFC), so that one address has one spelling."""
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise InvalidRequestError(f"A principal has at most {MAX_LENGTH} characters; {text[:40]!r}… has {len(text)}.")
    if text.isascii():
        return text.lower()
    if any(_imitates_ascii(character) for character in text):
        # U+212A (Kelvin sign) becomes a plain k: a foreign address must not turn into somebody else's
        raise InvalidRequestError(f"{text!r} holds a character that imitates a Latin letter; write the plain letter.")
    return unicodedata.normalize("NFC", text.lower())


def _imitates_ascii(character: str) -> bool:
    folded = unicodedata.normalize("NFC", character.lower())
    return not character.isascii() and any(part.isascii() for part in folded)
