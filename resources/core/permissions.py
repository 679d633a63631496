"""Normalisation of principals: who may read a document, and who a caller is, in one comparable form.

The normal forms are lower-case emails, `group:NAME@DOMAIN`, `domain:NAME`, `slack:TEAM` and `public`. Both sides of every
access decision are normalised here. An unrecognised principal is rejected, never guessed: a guess could widen access.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from resources.core.spelling import LETTER

PUBLIC = "public"
LANGUAGE_MODEL, LOCAL = "language_model", "local"
"""The tag, and its value, of a document that only a local language model may be shown."""
ANSWER_SHARING, NOBODY = "answer_sharing", "nobody"
"""The tag, and its value, of a document whose answers are not shared."""
LIFECYCLE, DRAFT = "lifecycle", "draft"
"""The tag, and its value, of a document that only its owner may read."""
PROTECTING = (LIFECYCLE, LANGUAGE_MODEL, ANSWER_SHARING)
"""Tags that restrict who is shown a document: a value that is no text is refused, since it would not be understood."""
CONSUMERS = frozenset({"gmail.com", "googlemail.com"})
"""Domains of Google accounts that belong to no organisation."""
FORMS = "an email, group:NAME@DOMAIN, domain:NAME, slack:TEAM or public"
READER_IDS = "reader_ids"
"""Payload field of the vector index with the `reader_id` of each principal that may read a document."""
MAX_LENGTH = 320
"""Longest principal in characters. Source: RFC 5321 4.5.3.1 (64 for the local part, `@`, 255 for the domain)."""

_DOMAIN = r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*"
_LOCAL = r"[^\s@:,;<>()\[\]\\\"\x00-\x1f\x7f\ud800-\udfff]+"
_EMAIL = re.compile(rf"{_LOCAL}@{_DOMAIN}")
_DOMAIN_ONLY = re.compile(_DOMAIN)
_TEAM = re.compile(r"[A-Z0-9]+")
_BETWEEN = re.compile(rf"(?:(?!{LETTER})[^.])+")


@lru_cache(100_000)
def reader_id(principal: str) -> int:
    """Return the number by which the vector index finds a principal (in normal form): 32 bits of a hash.

    Thousands of numbers are looked up in a tenth of the time of their texts. Two principals may share one, so the number only
    narrows a search: who may read a passage is decided by the texts.
    """
    return int.from_bytes(blake2b(principal.encode(), digest_size=4).digest(), "big")


def email(text: str) -> str:
    """Return the email in normal form; raises `InvalidRequestError` if it is not an email address."""
    folded = fold(text)
    if not _EMAIL.fullmatch(folded):
        raise InvalidRequestError(f"{text!r} is not an email address; write it as name@example.com.")
    return folded


def principal(text: str) -> str:
    """Return the principal in normal form; raises `InvalidRequestError` naming the valid forms."""
    kind, colon, rest = text.strip().partition(":")
    kind = kind.lower() if colon else ""
    if kind == "slack":
        team = rest.strip().upper()
        if _TEAM.fullmatch(team):
            return f"slack:{team}"
    elif kind == "group":
        group = fold(visible(rest))
        if _EMAIL.fullmatch(group):
            return f"group:{group}"
    elif kind == "domain":
        domain = fold(rest).removeprefix("@")
        if _DOMAIN_ONLY.fullmatch(domain):
            return f"domain:{domain}"
    elif not colon:
        plain = fold(text)
        if plain == PUBLIC or _EMAIL.fullmatch(plain):
            return plain
    raise InvalidRequestError(f"{text!r} is not a principal; write {FORMS}.")


def domain(text: str) -> str:
    """Return NAME of a domain, given as NAME or `domain:NAME`, in normal form; raises `InvalidRequestError` if it is none."""
    given = text.partition(":")[0].strip().lower() == "domain"
    return principal(text if given else f"domain:{text}").removeprefix("domain:")


def normalize(principals: Iterable[str]) -> tuple[str, ...]:
    """Return the principals in normal form, sorted, without duplicates. An empty set (no readers) stays empty."""
    return tuple(sorted({principal(text) for text in principals}))


def principals_of(email_address: str, groups: Iterable[str], slack_teams: Iterable[str] = ()) -> frozenset[str]:
    """Return all principals of a caller: email, domain, groups (with or without prefix), workspaces and `public`.

    A group is never interpreted as any other kind of principal, whatever its name. Raises `InvalidRequestError`.
    """
    address = email(email_address)
    found = {address, f"domain:{address.rpartition('@')[2]}", PUBLIC}
    found.update(principal(f"group:{_without('group:', group)}") for group in groups)
    found.update(principal(f"slack:{_without('slack:', team)}") for team in slack_teams)
    return frozenset(found)


def named_group(name: str, domain: str) -> str:
    """Return the principal of a group that an identity provider knows by a name: of the name if it is an email, else `NAME@domain`.

    NAME has a hyphen for anything but letters with their marks, digits, dots and underscores. Raises `InvalidRequestError` for a name
    without letters and digits.
    """
    name = visible(name)
    try:
        return f"group:{email(name)}"
    except InvalidRequestError:
        plain = _BETWEEN.sub("-", fold(name)).strip("-.")  # a letter and its accent may be two characters in the name
        return principal(f"group:{plain}@{domain}")


def covers(readers: Collection[str], reader: str) -> bool:
    """Return True if a holder of the principal `reader` is among `readers`: directly, through the email's domain, or through `public`."""
    if reader in readers or PUBLIC in readers:
        return True
    return ":" not in reader and f"domain:{reader.rpartition('@')[2]}" in readers


def granted(permissions: Iterable[str], owner: str | None, tags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who may read a document, in normal form: only its owner if it is a draft (`tags.lifecycle = draft`)."""
    if _says(tags, LIFECYCLE, DRAFT):
        return (owner,) if owner else ()
    return tuple(permissions)


def is_local_only(tags: Mapping[str, Any]) -> bool:
    """Return True if no language model elsewhere may be shown a document (`tags.language_model = local`)."""
    return _says(tags, LANGUAGE_MODEL, LOCAL)


def is_unshared(tags: Mapping[str, Any]) -> bool:
    """Return True if answers from a document are for the person who asked alone (`tags.answer_sharing = nobody`)."""
    return _says(tags, ANSWER_SHARING, NOBODY)


def _says(tags: Mapping[str, Any], name: str, word: str) -> bool:
    """Return True if a tag has this value. A list, which new documents may not have here, protects if it contains the value."""
    value: Any = tags.get(name)
    if value is None:  # most documents: a listing asks twice for each
        return False
    return any(str(one).strip().lower() == word for one in (value if is_list(value) else [value]))


def visible(name: str) -> str:
    """Return the name of a group without joiners and other characters that are not seen: it may be typed with or without them."""
    return name if name.isascii() else "".join(one for one in name if unicodedata.category(one) != "Cf")


def _without(prefix: str, text: str) -> str:
    text = text.strip()
    return text[len(prefix) :] if text.lower().startswith(prefix) else text


def fold(text: str) -> str:
    """Return the text stripped, lower-cased and NFC-normalised, so that each address has one spelling.

    Raises `InvalidRequestError` for a text that is too long or imitates Latin letters.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise InvalidRequestError(f"A principal has at most {MAX_LENGTH} characters; {text[:40]!r}… has {len(text)}.")
    if text.isascii():
        return text.lower()
    if any(_imitates_ascii(character) for character in text):
        # U+212A (Kelvin sign) lower-cases to a plain k: a look-alike address must not become another person's
        raise InvalidRequestError(
            f"{text!r} contains a character that imitates a Latin letter; write the plain letter."
        )
    return unicodedata.normalize("NFC", text.lower())


def _imitates_ascii(character: str) -> bool:
    folded = unicodedata.normalize("NFC", character.lower())
    return not character.isascii() and any(part.isascii() for part in folded)
