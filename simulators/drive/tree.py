"""Data model of the simulated Drive: files, folders and shortcuts in trees, their grants, and ids generated from a seed."""

import hashlib
import random
from datetime import datetime

import msgspec

FOLDER = "application/vnd.google-apps.folder"
SHORTCUT = "application/vnd.google-apps.shortcut"
DOCUMENT = "application/vnd.google-apps.document"
SPREADSHEET = "application/vnd.google-apps.spreadsheet"
PRESENTATION = "application/vnd.google-apps.presentation"
RANKS = {"reader": 1, "commenter": 2, "writer": 3, "fileOrganizer": 4, "organizer": 5, "owner": 6}
"""Roles by strength."""

Sheets = dict[str, list[list[str | int | float | bool | None]]]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class DriveGrant(msgspec.Struct, frozen=True):
    """A role granted on one item or on a shared drive."""

    who: str
    """`user:EMAIL`, `group:EMAIL`, `domain:NAME` or `anyone`."""
    role: str
    on: str
    """Id of the item it was granted on."""
    member: bool = False
    """True if granted by membership of a shared drive."""
    discoverable: bool = False
    """True if the domain or anyone may find it by search; otherwise they need the link."""
    expires: datetime | None = None

    @property
    def kind(self) -> str:
        return self.who.partition(":")[0]

    @property
    def name(self) -> str:
        return self.who.partition(":")[2]


class DriveComment(msgspec.Struct):
    """A comment on a file, or a reply to one."""

    author: str
    content: str
    quote: str | None = None
    """The part of the document that it is about."""
    resolved: bool = False
    replies: "list[DriveComment]" = []


class DriveFile(msgspec.Struct, eq=False):
    """Current state of one item: a file, folder, shortcut or the root of a tree."""

    id: str
    name: str
    mime_type: str
    parent: str | None
    created: datetime
    modified: datetime
    owner: str | None
    """Email of the owner; None in a shared drive."""
    modified_by: str
    content: bytes = b""
    sheets: Sheets | None = None
    description: str | None = None
    target: str | None = None
    """Id of the item that a shortcut points to."""
    target_mime_type: str | None = None
    grants: dict[str, DriveGrant] = {}
    """Grants given on this item itself, by grantee."""
    limited: bool = False
    """A limited-access folder: inherited permissions are disabled."""
    trashed_at: datetime | None = None
    """When the item itself was trashed, not a folder above it."""
    labels: dict[str, None] = {}
    """Ids of the labels on it."""
    labels_hidden: bool = False
    """True if the account may not read its labels."""
    download_forbidden: bool = False
    lost: bool = False
    """True if the account lost access to this and everything below it."""
    in_account_feed: bool = False
    """True if a change of it reached the feed of the account."""
    mine: bool = False
    """True if it was ever outside shared drives."""
    comments: list[DriveComment] = []
    """Those that are not deleted, oldest first."""
    version: int = 1
    """Number of all changes, comments included."""
    revision: int = 1
    """Number of the current content revision."""
    children: dict[str, None] = {}
    """Ids, in order of creation."""
    md5: str = ""

    @property
    def is_folder(self) -> bool:
        """True if the item may have children."""
        return self.mime_type == FOLDER

    @property
    def is_binary(self) -> bool:
        """True if its bytes are downloaded as they are rather than exported."""
        return not self.mime_type.startswith("application/vnd.google-apps.")


class SharedDrive(msgspec.Struct, eq=False):
    """A shared drive; its root folder has the same id."""

    id: str
    name: str
    created: datetime


class Ids:
    """Ids that look like Google's and depend only on the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"drive {seed}")  # noqa: S311 - names, not secrets

    def file(self) -> str:
        """Return an id of a file or folder: 33 characters."""
        return "1" + self._characters(32)

    def root(self) -> str:
        """Return an id of My Drive or of a shared drive: 19 characters."""
        return "0A" + self._characters(14) + "PVA"

    def number(self, low: int, high: int) -> int:
        return self._random.randrange(low, high)

    def _characters(self, count: int) -> str:
        return "".join(self._random.choices(_ALPHABET, k=count))


def permission_id(grant: DriveGrant, grantee: str) -> str:
    """Return the id of a grantee, the same on every item, as at Google; `grantee` stays the same when an account's address changes."""
    if grant.kind == "anyone":
        return "anyone" if grant.discoverable else "anyoneWithLink"
    digits = str(int.from_bytes(hashlib.sha256(f"{grant.kind}:{grantee}".encode()).digest()[:9]))[:20].zfill(20)
    return digits + "k" if grant.kind == "domain" and not grant.discoverable else digits
