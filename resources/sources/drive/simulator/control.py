"""Remote control: the model's methods as `POST /simulator/{operation}` and its state as `GET /simulator/state`.

Arguments are a JSON object; the response is the method's return value as JSON.
"""

import base64
import binascii
from datetime import datetime
from typing import Any

import msgspec

from resources.sources.drive.simulator.errors import ApiError
from resources.sources.drive.simulator.model import Drive
from resources.sources.drive.simulator.tree import DriveFile

OPERATIONS = (
    "file", "folder", "shortcut", "edit", "rename", "move", "trash", "restore", "delete",
    "share", "unshare", "limit", "inherit", "lose_file", "regain_file",
    "shared_drive", "add_member", "remove_member", "rename_drive", "lose_drive", "regain_drive",
    "expire_tokens", "revoke", "readers", "everything",
)  # fmt: skip
"""Methods of `Drive` that may be called over HTTP."""

_TIMES = ("created", "modified", "expires")


def control(drive: Drive, method: str, operation: str, body: bytes) -> tuple[int, Any]:
    if operation == "state" and method == "GET":
        return 200, state(drive)
    if method != "POST" or operation not in (*OPERATIONS, "faults"):
        known = ", ".join((*OPERATIONS, "faults"))
        return 404, {"error": f"There is no operation {method} {operation!r}. POST one of: {known}; or GET state."}
    try:
        given = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        if operation == "faults":
            drive.faults.order(given)
            return 200, {"ok": True}
        return 200, {"result": _plain(getattr(drive, operation)(**_arguments(given)))}
    except KeyError as error:
        return 404, {"error": f"There is no {error.args[0]!r}."}
    except (ValueError, TypeError, ApiError, msgspec.MsgspecError, binascii.Error) as error:
        return 400, {"error": str(error)}


def state(drive: Drive) -> dict[str, Any]:
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


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Convert JSON arguments: times are ISO 8601, bytes are `{"base64": "…"}`."""
    found = dict(given)
    for name in _TIMES:
        if isinstance(found.get(name), str):
            at = datetime.fromisoformat(found[name])
            if at.tzinfo is None:
                raise ValueError(f"{name} needs a time zone, as in 2026-01-31T09:00:00Z.")
            found[name] = at
    content = found.get("content")
    if isinstance(content, dict) and content.keys() == {"base64"}:
        found["content"] = base64.b64decode(content["base64"], validate=True)
    return found


def _plain(found: Any) -> Any:
    if isinstance(found, set):
        return sorted(found)
    if isinstance(found, dict):
        return {key: value.name if isinstance(value, DriveFile) else value for key, value in found.items()}
    return found
