"""`files.list`: the corpus of a search, its matches and its paging.

Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/list
"""

from collections.abc import Callable
from typing import Any

from simulators.drive.errors import bad_parameter, file_not_found
from simulators.drive.fields import Mask, mask
from simulators.drive.parameters import FILE_FIELDS, Parameters, member_drive, page_size, shallow, true, with_next
from simulators.drive.query import FileQuery, parse
from simulators.drive.resources import file_resource
from simulators.drive.state import DriveState
from simulators.drive.tree import DriveFile

_CORPORA = ("user", "drive", "allDrives")


def files_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the files of a corpus that match a query, in pages."""
    world = world.listed()
    chosen = mask(parameters.get("fields", f"kind,incompleteSearch,nextPageToken,files({FILE_FIELDS})"), "FileList")
    question = tuple(parameters.get(name) for name in ("q", "corpora", "driveId", "includeItemsFromAllDrives"))
    query, fits = _corpus(world, parameters)
    incomplete = parameters.get("corpora", "user") in world.incomplete
    token = parameters.get("pageToken") or world.listings.begin(
        question, _search(world, query, fits)[:: 1 + incomplete]
    )
    ids, following = world.listings.page(token, question, page_size(parameters, 100, 1_000))
    still = [item for item in map(world.items.get, ids) if item is not None and fits(item) and query.matches(item)]
    below: Mask = None if chosen is None else chosen.get("files", {})
    body: dict[str, Any] = {
        "kind": "drive#fileList",
        "incompleteSearch": incomplete,
        "files": [file_resource(world, item, below) for item in still],
    }
    return shallow(with_next(body, following), chosen)


def _corpus(world: DriveState, parameters: Parameters) -> tuple[FileQuery, Callable[[DriveFile], bool]]:
    """Return the query and a predicate for the listing's corpus, enforcing the rules for naming shared drives."""
    corpora, drive = parameters.get("corpora", "user"), parameters.get("driveId")
    query = (
        FileQuery(lambda _: True) if not parameters.get("q") else parse(parameters["q"], world.access, world.my_drive)
    )
    if corpora not in _CORPORA:
        raise bad_parameter("corpora")
    if (corpora == "drive") != (drive is not None):
        raise bad_parameter(
            "driveId", "The driveId parameter must be specified if and only if corpora is set to drive."
        )
    shared = true(parameters, "includeItemsFromAllDrives")
    if shared and not true(parameters, "supportsAllDrives"):
        message = "The supportsAllDrives parameter must be true when includeItemsFromAllDrives is."
        raise bad_parameter("supportsAllDrives", message)
    if corpora != "user" and not shared:
        message = "The includeItemsFromAllDrives parameter must be true when corpora is drive or allDrives."
        raise bad_parameter("includeItemsFromAllDrives", message)
    if drive is not None:
        member = member_drive(world, drive)
        return query, lambda item: world.drive_of(item.id) == member and _listed(world, item)

    def fits(item: DriveFile) -> bool:
        if world.drive_of(item.id):
            # the user corpus includes only items of shared drives that the account has encountered, or the requested folder
            met = corpora != "user" or item.in_account_feed or query.parent is not None
            return shared and met and _listed(world, item)
        return _listed(world, item)

    return query, fits


def _search(world: DriveState, query: FileQuery, fits: Callable[[DriveFile], bool]) -> list[str]:
    within = world.items.get(query.parent) if query.parent is not None else None
    if query.parent is None:
        candidates = list(world.items.values())
    elif within is None or not world.access.visible(within):
        raise file_not_found(".")
    else:
        candidates = [world.items[child] for child in within.children]
    return [item.id for item in candidates if fits(item) and query.matches(item)]


def _listed(world: DriveState, item: DriveFile) -> bool:
    """Return True if a listing may show an item: it is not the root of a drive, and the account sees it."""
    return (
        item.id not in world.tops.values()
        and item.id not in world.drives
        and world.access.visible(item)
        and world.access.met(item)
    )
