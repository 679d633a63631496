"""Fill the Drive and Slack simulators with the sample company's content from `examples/sample_company`.

Ids and times come from the files, so that every start creates an identical Drive and workspace, and a sync after a restart finds no
changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from resources.core.errors import ConfigurationError

if TYPE_CHECKING:
    from simulators.drive import SimulatedDrive
    from simulators.slack import Workspace

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "sample_company"
DRIVE_FILE = "drive/drive.json"
SLACK_FILE = "slack.json"
MADE = datetime(2026, 7, 10, 12, tzinfo=UTC)
"""Time of the simulators' clocks while they are filled."""

_MENTION = re.compile(r"<@([a-z]+)>")


class SampleShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grant on an item. Without `discoverable`, a grant to a domain or to anyone works by link only, not in search."""

    who: str = msgspec.field(name="with")
    role: str = "reader"
    discoverable: bool = False


class SampleItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, folder or shortcut. Its content is a `file` of the sample company or a `text`. Without a parent, it is in `owner`'s Drive."""

    id: str
    name: str
    type: str
    """`folder`, `shortcut`, `document`, `spreadsheet`, `presentation`, or a mime type."""
    parent: str | None
    owner: str | None = None
    file: str | None = None
    text: str = ""
    target: str = ""
    modified: datetime = MADE
    limited: bool = False
    share: list[SampleShare] = []


class SampleDrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shared drive and the roles of its members, including the account."""

    id: str
    name: str
    members: dict[str, str]


class DriveManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `drive/drive.json`. An item follows its parent and its target."""

    account: str
    shared_drives: list[SampleDrive]
    items: list[SampleItem]


class SampleUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of the workspace, a guest, a member of a connected workspace, or a bot."""

    name: str
    email: str | None = None
    guest: bool = False
    external: bool = False
    bot: bool = False


class SampleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    name: str
    by: str
    text: str


class SampleMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message with its replies. `edited` is its text after an edit; users are named by their key, also in `<@ines>`."""

    at: datetime
    by: str
    text: str
    replies: list[SampleMessage] = []
    files: list[str] = []
    edited: str | None = None
    deleted: bool = False
    subtype: str | None = None

    @property
    def ts(self) -> str:
        return f"{int(self.at.timestamp())}.000100"


class SampleChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel; the bot is a member of every one."""

    id: str
    name: str
    members: list[str]
    messages: list[SampleMessage]
    topic: str = ""
    private: bool = False
    archived: bool = False


class SlackManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    team: str
    domain: str
    users: dict[str, SampleUser]
    files: list[SampleFile]
    channels: list[SampleChannel]


def read(name: str) -> bytes:
    """Return the bytes of a file of the sample company. Raises `ConfigurationError` outside of a checkout."""
    try:
        return (FOLDER / name).read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(
            f"The sample company is missing ({FOLDER / name}). It is part of the repository: run this in a checkout."
        ) from None


def drive_manifest() -> DriveManifest:
    return msgspec.json.decode(read(DRIVE_FILE), type=DriveManifest)


def slack_manifest() -> SlackManifest:
    return msgspec.json.decode(read(SLACK_FILE), type=SlackManifest)


def make_drive() -> SimulatedDrive:
    from simulators.drive import SimulatedDrive

    clock = _Clock()
    drive = SimulatedDrive(drive_manifest().account, clock=clock)
    fill_drive(drive)
    clock.start()
    return drive


def make_workspace() -> Workspace:
    """Return a Slack workspace filled with the sample company's content."""
    from simulators.slack import Workspace

    clock, manifest = _Clock(), slack_manifest()
    workspace = Workspace(manifest.name, manifest.team, manifest.domain, clock=lambda: clock().timestamp())
    fill_slack(workspace)
    clock.start()
    return workspace


def fill_drive(drive: SimulatedDrive) -> None:
    """Add the company's folders, files and shortcuts to a Drive, and share them."""
    manifest = drive_manifest()
    for shared in manifest.shared_drives:
        drive.shared_drive(shared.name, shared.members, id=shared.id)
    for entry in manifest.items:
        _put(drive, entry)
        for share in entry.share:
            drive.share(entry.id, share.who, share.role, share.discoverable)
        if entry.limited:
            drive.limit(entry.id)


def fill_slack(workspace: Workspace) -> None:
    """Add the company's people, channels and messages to a workspace; edits, deletions and archiving come last."""
    manifest = slack_manifest()
    users = {
        key: workspace.user(user.name, user.email, guest=user.guest, external=user.external, bot=user.bot)
        for key, user in manifest.users.items()
    }
    for upload in manifest.files:
        workspace.upload(users[upload.by], upload.name, upload.text, id=upload.id)
    for channel in manifest.channels:
        members = [users[key] for key in channel.members]
        workspace.channel(channel.name, members, private=channel.private, topic=channel.topic, id=channel.id)
        for message in channel.messages:
            _post(workspace, channel.id, users, message, None)
        if channel.archived:
            workspace.archive(channel.id)


def _put(drive: SimulatedDrive, entry: SampleItem) -> None:
    parent = drive.my_drive if entry.parent == "my_drive" else entry.parent
    known: dict[str, Any] = {"id": entry.id, "created": entry.modified, "modified": entry.modified}
    if entry.type == "folder":
        drive.folder(entry.name, parent, **known)
    elif entry.type == "shortcut":
        drive.shortcut(entry.target, parent or drive.my_drive, entry.name, **known)
    else:
        content: Any = entry.text if entry.file is None else read(entry.file)
        if entry.type == "spreadsheet":
            content = msgspec.json.decode(content)
        drive.file(entry.name, parent, content, entry.type, entry.owner, **known)


def _post(
    workspace: Workspace, channel: str, users: dict[str, str], message: SampleMessage, thread: str | None
) -> None:
    def named(text: str) -> str:
        return _MENTION.sub(lambda match: f"<@{users[match[1]]}>", text)

    ts = workspace.post(
        channel,
        users[message.by],
        named(message.text),
        ts=message.ts,
        thread=thread,
        files=message.files,
        subtype=message.subtype,
    )
    for reply in message.replies:
        _post(workspace, channel, users, reply, ts)
    if message.edited is not None:
        workspace.edit(channel, ts, named(message.edited))
    if message.deleted:
        workspace.delete(channel, ts)


class _Clock:
    """A clock that shows `MADE` until `start`, then the current time."""

    def __init__(self) -> None:
        self._time: Callable[[], datetime] = lambda: MADE

    def __call__(self) -> datetime:
        return self._time()

    def start(self) -> None:
        self._time = lambda: datetime.now(UTC)
