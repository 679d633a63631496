"""Control interface of the simulated Drive: its operations, its state and the start page."""

from html import escape
from typing import Any

from starlette.responses import Response

from simulators import http
from simulators.drive.model import SimulatedDrive

OPERATIONS = (
    "file", "folder", "shortcut", "edit", "rename", "move", "trash", "restore", "delete",
    "share", "unshare", "limit", "inherit", "comment", "reply", "label", "unlabel", "hide_labels", "lose_file", "regain_file",
    "shared_drive", "add_member", "remove_member", "rename_drive", "lose_drive", "regain_drive",
    "lag", "expire_tokens", "revoke", "readers", "transfer", "open",
    "user", "suspend", "reinstate", "rename_user", "delete_user", "group", "join", "leave", "delete_group",
)  # fmt: skip
"""Methods of `SimulatedDrive` that may be called over HTTP."""

_TEXT = """<p>A Drive v3 API on loopback that acts for <b>{account}</b>, with {files} files and {drives} shared drives. No data
leaves this machine, and everything is discarded when it stops.</p>
<pre>export CONCORDANCE_DRIVE_API_URL={url}
export CONCORDANCE_DRIVE_TOKEN={token}
concordance sync google_drive --wait
curl {url}/simulator/file -d '{{"name": "Note.txt", "parent": "{my_drive}", "content": "Hello"}}'</pre>
<h2>Drives</h2><ul><li>My Drive <code>{my_drive}</code></li>{rows}</ul>"""


def state(drive: SimulatedDrive) -> dict[str, Any]:
    """Return the state: drives with members, items with their readers, and calls and faults so far."""
    with drive.lock:
        drive.settle()
        return {
            "account": drive.account,
            "my_drive": drive.my_drive,
            "shared_drives": [
                {
                    "id": one.id,
                    "name": one.name,
                    "lost": drive.items[one.id].lost,
                    "members": {who: grant.role for who, grant in drive.items[one.id].grants.items()},
                }
                for one in drive.drives.values()
            ],
            "items": [
                {
                    "id": item.id,
                    "name": item.name,
                    "parent": item.parent,
                    "mime_type": item.mime_type,
                    "trashed": drive.access.trashed(item),
                    "readers": sorted(drive.readers(item.id)),
                }
                for item in drive.items.values()
                if item.parent is not None or item.owner != drive.account
                if item.id not in drive.drives
            ],
            "calls": dict(drive.calls),
            "faults": dict(drive.faults.committed),
        }


def page(drive: SimulatedDrive, host: str) -> Response:
    with drive.lock:
        text = _TEXT.format(
            account=escape(drive.account),
            files=sum(not item.is_folder for item in drive.items.values()),
            drives=len(drive.drives),
            url=escape(f"http://{host}"),
            token=escape(drive.token),
            my_drive=escape(drive.my_drive),
            rows="".join(f"<li>{escape(one.name)} <code>{escape(one.id)}</code></li>" for one in drive.drives.values()),
        )
    return http.page("Google Drive simulator", text, drive, OPERATIONS)
