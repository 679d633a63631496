"""Resolve a chunking profile for the embedding model's window. A profile larger than the window is refused."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from resources.core.domain import DEFAULT_PROFILE
from resources.core.errors import ConfigurationError
from resources.settings import Settings

SETTING = "CONCORDANCE_SEARCH__CHUNK_PROFILE"
CHUNKING_VERSION = "c3"
"""Increment it whenever the same text may be chunked differently: it is part of every chunk id."""

SPECIAL_TOKENS = 2
"""`[CLS]` and `[SEP]`, which a BERT model adds: a window of 256 leaves 254 for the text.

Source: J. Devlin et al., BERT, 2019, section 3, https://arxiv.org/abs/1810.04805
"""

CHARACTERS_PER_TOKEN = 4
"""Average characters per token of prose, used to compare sizes in characters with windows."""
_MOST_CHARACTERS_PER_TOKEN = 8
"""Text seldom has more, unless it is white space, which is no token: a passage of it is not larger than a vector server accepts."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Chunking profile of a document. `size`, `overlap` and `minimum` are counted in `unit`; `limit` is always in tokens."""

    name: str
    size: int
    overlap: int
    minimum: int
    """A heading or page begins a new chunk once the current one has this size; a smaller last chunk is merged into the previous one."""
    unit: Literal["tokens", "characters"] = "tokens"
    tables_isolated: bool = False
    heading_aware: bool = True
    """True if headings and pages begin new chunks."""
    limit: int = 0
    """Maximum tokens of a chunk, whatever the unit: the model ignores the rest."""

    @property
    def version(self) -> str:
        """The version in chunk ids, for example `c3-auto-254`: chunking code, profile and size."""
        return f"{CHUNKING_VERSION}-{self.name}-{self.size}"

    @property
    def characters(self) -> int:
        """The maximum characters of a chunk."""
        return self.size if self.unit == "characters" else self.limit * _MOST_CHARACTERS_PER_TOKEN

    @property
    def tokens(self) -> int:
        """The size in tokens, estimated if the unit is characters."""
        return self.size if self.unit == "tokens" else self.size // CHARACTERS_PER_TOKEN


AUTO_SIZE = 500
LEAST_SIZE = 16
"""Tokens of a profile of one's own at least; shorter passages say nothing."""
_OWN = re.compile(r"(\d{1,6})/(\d{1,6})/(\d{1,6})")
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "a500": Profile(name="a500", size=500, overlap=50, minimum=50),
        "b1000": Profile(name="b1000", size=1000, overlap=150, minimum=100, tables_isolated=True, heading_aware=False),
        "d1000": Profile(name="d1000", size=1000, overlap=50, minimum=300),
        "e2000": Profile(name="e2000", size=2000, overlap=800, minimum=0, unit="characters", heading_aware=False),
    }
)


def _own(name: str) -> Profile | None:
    """Return the profile that its own name describes, `SIZE/OVERLAP/MINIMUM` in tokens; None if the name is another."""
    numbers = _OWN.fullmatch(name)
    if numbers is None:
        return None
    size, overlap, minimum = map(int, numbers.groups())
    if size < LEAST_SIZE or overlap > size // 2 or minimum > size:
        raise ConfigurationError(
            f"{name!r} must have a size of at least {LEAST_SIZE} tokens, an overlap of at most half the size, and a minimum of at most "
            "the size.",
            "Write SIZE/OVERLAP/MINIMUM, for example 200/20/50.",
            setting=SETTING,
        )
    return Profile(name=name, size=size, overlap=overlap, minimum=minimum)


def profile_names(settings: Settings) -> frozenset[str]:
    """Return the names of the profiles that a document may have: others are in no index."""
    of_roots = [root.profile for root in settings.file_roots if root.profile is not None]
    return frozenset((DEFAULT_PROFILE, "auto", *PROFILES, *of_roots))


def resolve(name: str, window: int) -> Profile:
    """Return the profile for a model that sees `window` tokens, special ones included.

    `auto` is 500 tokens, or fewer to fit the window, with 10 % overlap; `200/20/50` is a profile of one's own. Raises
    `ConfigurationError` for an unknown name and for a profile larger than the window, naming the largest that fits.
    """
    usable = window - SPECIAL_TOKENS
    if usable < 1:
        raise ConfigurationError(
            f"CONCORDANCE_LIMITS__EMBEDDING_WINDOW is {window} tokens; at least {SPECIAL_TOKENS + 1} are needed."
        )
    if name == "auto":
        size = min(AUTO_SIZE, usable)
        return Profile(name=name, size=size, overlap=size // 10, minimum=size // 4, limit=size)
    profile = PROFILES.get(name) or _own(name)
    if profile is None:
        known = ", ".join(["auto", *PROFILES, "SIZE/OVERLAP/MINIMUM in tokens"])
        raise ConfigurationError(f"there is no chunking profile {name!r}.", f"Known: {known}.", setting=SETTING)
    if profile.tokens > usable:
        fitting = [other for other in PROFILES.values() if other.tokens <= usable]
        largest = max(fitting, key=lambda other: other.tokens).name if fitting else "auto"
        raise ConfigurationError(
            f"{name} cuts chunks of {profile.tokens} tokens, but the embedding model sees {usable} ({window} less {SPECIAL_TOKENS} of "
            "its own): the rest of each chunk would not be searchable.",
            f"The largest profile that fits is {largest}. Choose it, or a model with a larger window.",
            setting=SETTING,
        )
    return msgspec.structs.replace(profile, limit=profile.size if profile.unit == "tokens" else usable)
