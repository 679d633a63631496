"""Find out who may read files, with as few calls as possible.

Drive shows the permissions of files in My Drive that the account may share. For all others it only shows permission ids: if
each id is known, no call is needed; otherwise one file with the unknown id is queried, and its answer is reused for the rest.
Below a limited-access folder ids do not determine who may open a file, so each file is queried. Nor do they say until when a
person may: in a shared drive, that is asked for each file with permissions of its own (`hasAugmentedPermissions`), and for each below a
folder with one that expires. The drive's members are asked for at each sync anyway.

Files shared by link have readers by the setting `drive_link_sharing`: no one, those who opened the file, or the organisation. Drive
reports an opened file only to the person who opened it (`viewedByMe`), so each user's view is read, with one call each.
Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Literal

from resources.core import permissions as principals
from resources.core.errors import InvalidRequestError
from resources.sources.drive import permissions
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.notes import PartitionState
from resources.sources.drive.permissions import FileGrant

LinkSharing = Literal["nobody", "opened", "domain"]
_SERVICE_ACCOUNTS = ".gserviceaccount.com"
FIELDS = "id,type,emailAddress,domain,allowFileDiscovery,deleted,expirationTime,view"
_LIST = f"nextPageToken,permissions({FIELDS})"
_PAGE = 100
"""Largest page of permissions. Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/permissions/list"""


class Links:
    """`account` returns the email that reads the files, `openers` the people who opened each file that is shared by link."""

    def __init__(
        self,
        setting: LinkSharing,
        account: Callable[[], str],
        openers: Callable[[], Mapping[str, frozenset[str]]] = dict,
    ) -> None:
        self.setting: LinkSharing = setting
        self._account = account
        self._openers = openers

    @cached_property
    def organisation(self) -> str | None:
        """The domain that a link grants; None if it grants no domain."""
        if self.setting != "domain":
            return None
        domain = self._account().rpartition("@")[2]
        return (
            None
            if domain in principals.CONSUMERS or domain.endswith(_SERVICE_ACCOUNTS) or "." not in domain
            else domain
        )

    @cached_property
    def account(self) -> frozenset[str]:
        """The account that reads the files, as a principal; none if only a token is known of it."""
        try:
            return frozenset({principals.email(self._account())})
        except InvalidRequestError:
            return frozenset()

    @property
    def asks(self) -> bool:
        """True if it matters who opened a file."""
        return self.setting == "opened"

    def opened(self, file_id: str) -> frozenset[str]:
        return self._openers().get(file_id, frozenset()) if self.asks else frozenset()


class Readers:
    """Resolves the readers of files during one sync."""

    def __init__(self, client: DriveClient, now: Callable[[], datetime], links: Links) -> None:
        self._links = links
        self._client = client
        self._now = now
        self._vague: set[str] = set()
        """Ids that cannot be interpreted on their own: domains, and permissions that expire."""
        self._members: dict[str, list[JSON]] = {}

    def grants(
        self,
        notes: PartitionState,
        files: Sequence[JSON],
        limited: Callable[[JSON], bool],
        may_expire: Callable[[JSON], bool],
    ) -> dict[str, FileGrant]:
        """Return the grant of each file by its id. Raises what calls raise, except for a file that may not be queried."""
        found: dict[str, FileGrant] = {}
        waiting: list[JSON] = []
        for file in files:
            if "permissions" in file:
                found[file["id"]] = self._read(notes, file, file["permissions"])
            else:
                waiting.append(file)
        alone = {file["id"] for file in waiting if not file.get("permissionIds") or limited(file)}
        queried = alone | {file["id"] for file in waiting if may_expire(file)}
        while waiting:
            waiting = [file for file in waiting if not self._by_ids(notes, file, queried, found)]
            asked = self._choose(notes, waiting, queried)
            for file, listed in zip(asked, self._list([file["id"] for file in asked]), strict=True):
                found[file["id"]] = self._read(notes, file, listed, alone=file["id"] in alone)
            waiting = [file for file in waiting if file["id"] not in found]
        return found

    def members(self, drive: str) -> list[str]:
        """Return the members of a shared drive as comparable digests; empty if the account may not list them.

        Requested once per sync, since no feed reports it.
        """
        now = self._now()
        return sorted(f"{one.get('id')} {permissions.read([one], now).digest}" for one in self._who(drive))

    def drive(self, drive: str) -> FileGrant:
        """Return the grant that membership of a shared drive gives."""
        return permissions.read(self._who(drive), self._now())

    def learn_members(self, drive: str, notes: PartitionState) -> None:
        """Record the principals behind the permission ids of a shared drive's members."""
        self._learn(notes, self._who(drive))

    def _who(self, drive: str) -> list[JSON]:
        if drive not in self._members:
            self._members[drive] = self._list([drive])[0] or []
        return self._members[drive]

    def _by_ids(self, notes: PartitionState, file: JSON, queried: set[str], found: dict[str, FileGrant]) -> bool:
        if file["id"] in queried:
            return False
        grant, unknown = permissions.by_ids(file["permissionIds"], notes.people, self._links.organisation)
        if unknown:
            return False
        found[file["id"]] = permissions.with_owner(grant, owner_of(file))
        return True

    def _choose(self, notes: PartitionState, waiting: Sequence[JSON], queried: set[str]) -> list[JSON]:
        """Return the files to query: those whose ids are not enough, and one for each unknown id."""
        chosen: list[JSON] = []
        covered: set[str] = set()
        for file in waiting:
            unknown = set(permissions.by_ids(file.get("permissionIds") or (), notes.people)[1])
            if file["id"] in queried or unknown & self._vague or unknown - covered:
                chosen.append(file)
                covered |= unknown
        return chosen

    def _list(self, ids: Sequence[str]) -> list[list[JSON] | None]:
        """Return the permissions of each file, None if the account may not see them."""
        many = [{"fileId": one, "pageSize": _PAGE, "fields": _LIST, "supportsAllDrives": True} for one in ids]
        answers = self._client.visible("permissions.list", many)
        return [self._whole(one, answer) for one, answer in zip(ids, answers, strict=True)]

    def _whole(self, file_id: str, answer: JSON | None) -> list[JSON] | None:
        if answer is None:
            return None
        listed: list[JSON] = list(answer.get("permissions", ()))
        while token := answer.get("nextPageToken"):
            further = {
                "fileId": file_id,
                "pageSize": _PAGE,
                "fields": _LIST,
                "supportsAllDrives": True,
                "pageToken": token,
            }
            answer = self._client.visible("permissions.list", [further])[0]
            if answer is None:
                return None
            listed += answer.get("permissions", ())
        return listed

    def _read(self, notes: PartitionState, file: JSON, listed: list[JSON] | None, *, alone: bool = False) -> FileGrant:
        """Return what its permissions grant; if the account may not see these, what the ids of known people do, unless it is `alone`."""
        owner = owner_of(file)
        if listed is None:
            ids = () if alone else file.get("permissionIds") or ()
            return permissions.with_owner(permissions.by_ids(ids, notes.people, self._links.organisation)[0], owner)
        self._learn(notes, listed)
        return permissions.with_owner(permissions.read(listed, self._now(), self._links.organisation), owner)

    def _learn(self, notes: PartitionState, listed: Sequence[JSON]) -> None:
        learnt = permissions.learn(listed, self._now())
        for permission_id, principal in learnt.items():
            notes.set_person(permission_id, principal)
        self._vague.update(str(one.get("id")) for one in listed if str(one.get("id")) not in learnt)


def owner_of(file: JSON) -> str | None:
    """Return the email of a file's owner; files in shared drives have none."""
    owners: list[JSON] = file.get("owners") or []
    return permissions.email(owners[0].get("emailAddress")) if owners else None
