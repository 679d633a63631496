"""Check what a source reports before anything is stored: one odd document must cost that document only.

Whatever a source passes on of its service can be odd: a name with a NUL, an id of 5,000 characters, null for a title. Texts that people
read are repaired; a document that cannot be identified, fetched or described with what can be stored is refused with a reason.
"""

import hashlib
import operator
from collections.abc import Collection, Sequence
from typing import Any, TypeGuard, cast

import msgspec

from resources.core.domain import Batch, Folder, Item, Refusal
from resources.core.errors import AbortSyncError, SkipDocumentError
from resources.core.json import is_list, is_object
from resources.core.moments import bounded
from resources.core.permissions import MAX_LENGTH
from resources.core.texts import is_storable, storable, storable_value

MAX_ID_BYTES = 2500
"""Longest id of a document or of a collection."""
MAX_KEY_BYTES = 2600
"""Longest id, version and partition of a document together, which are in one entry of an index. Source: 2,704 bytes at most,
https://www.postgresql.org/docs/current/btree-behavior.html, of which a part is for the name of the source."""
MAX_AUTHOR = 500
"""Longest name of an author in characters of up to four bytes; the rest is cut off."""
MAX_DEPTH = 32
"""Deepest nesting of tags. The vector index accepts some that it cannot read again, nor anything that is read with them."""
MAX_SIZE = 2**63
_NUL = b"\\u0000"
_UNSTORABLE = "Its source describes it in a form that cannot be stored ({}): the connector must be repaired."
_UNKNOWN = "Its source asks for what there is not supported: there is no chunking profile {!r}."

_encoder = msgspec.json.Encoder(order="deterministic")  # refuses names of tags that are no texts
_decoder = msgspec.json.Decoder(Item)


def admitted(batch: Batch, profiles: Collection[str]) -> Batch:
    """Return the batch as it can be stored, each document once; `profiles` are the names of those that a document may have.

    Raises `AbortSyncError` for a cursor that cannot be stored.
    """
    if batch.cursor is not None and not is_storable(batch.cursor):
        raise AbortSyncError("The source gives a position that cannot be stored: the connector must be repaired.")
    seen: dict[str, Item] = {}
    refused = {_stored_id(one.source_id): _refusal(one, one.reason, batch.partition) for one in batch.refused}
    for item in batch.seen:
        try:
            found = admitted_item(item, profiles)
        except SkipDocumentError as error:
            refusal = _refusal(item, str(error), batch.partition)
            refused[refusal.source_id] = refusal
            seen.pop(refusal.source_id, None)
        else:
            seen[found.source_id] = found
    shown = seen.keys() | refused.keys()
    return msgspec.structs.replace(
        batch,
        seen=list(seen.values()),
        refused=[one for source_id, one in refused.items() if source_id not in seen],
        deleted=[one for one in map(_stored_id, batch.deleted) if one not in shown],
        deleted_at={
            _stored_id(key): found for key, at in batch.deleted_at.items() if (found := bounded(at)) is not None
        },
        emptied=[one for one in batch.emptied if is_storable(one)],
        closed=[one for one in batch.closed if is_storable(one)],
        permissions=None if batch.permissions is None else principals(batch.permissions),
        memory=_storable(batch.memory),
        title=_storable(batch.title),
        keys={_stored_id(key): value for key, value in batch.keys.items()},
        notice=_storable(batch.notice),
    )


def admitted_item(item: Item, profiles: Collection[str]) -> Item:
    """Return the item as it can be stored: the same, unless something about it is odd. Raises `SkipDocumentError`."""
    item = _readable(item)
    collections = (*item.collection_ids, *(folder.id for folder in item.folders))
    if not item.source_id:
        raise SkipDocumentError(_UNSTORABLE.format("without an id"))
    if (
        _bytes(item.source_id) > MAX_ID_BYTES
        or _bytes(item.source_id, item.version, item.partition) > MAX_KEY_BYTES
        or any(_bytes(one) > MAX_ID_BYTES for one in collections)
    ):
        raise SkipDocumentError(f"Its id, or the id of a folder that holds it, is longer than {MAX_ID_BYTES} bytes.")
    if _is_deep(item.tags, MAX_DEPTH):
        raise SkipDocumentError(f"Its tags are nested too deeply: at most {MAX_DEPTH} levels.")
    if item.profile not in profiles:
        raise SkipDocumentError(_UNKNOWN.format(item.profile))
    return _bounded(item)


def principals(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return those that can be a person's or a group's: none that cannot be stored or is too long."""
    return given if all(map(is_principal, given)) else tuple(filter(is_principal, given))


def is_principal(text: str) -> bool:
    return len(text) <= MAX_LENGTH and is_storable(text)


def _readable(item: Item) -> Item:
    """Return the item with its declared types, and with texts for people that can be stored."""
    try:
        try:
            encoded = _encoder.encode(item)
        except UnicodeEncodeError:
            encoded = _NUL
        if _NUL in encoded:  # or the same six characters, as a person may have written them
            item = _repaired(item)
            encoded = _encoder.encode(item)
        _decoder.decode(encoded)
    except msgspec.ValidationError as error:
        raise SkipDocumentError(_UNSTORABLE.format(error)) from error
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise SkipDocumentError(_UNSTORABLE.format(type(error).__name__)) from error
    return item


def _repaired(item: Item) -> Item:
    """Return the item with storable texts. Ids stay as they are, by which the source is asked; no one is given access by a repair."""
    ids = (item.source_id, item.partition, item.version, item.locator, item.profile, *item.collection_ids)
    if not all(map(is_storable, (*ids, *(folder.id for folder in item.folders)))):
        raise SkipDocumentError("Its id, or the id of a folder that holds it, contains a NUL or half of a character.")
    folders = [Folder(id=one.id, name=storable(one.name), readers=principals(one.readers)) for one in item.folders]
    return msgspec.structs.replace(
        item,
        title=storable(item.title),
        path=storable(item.path),
        mime_type=storable(item.mime_type),
        permissions=principals(item.permissions),
        owner=item.owner if item.owner is not None and is_storable(item.owner) else None,
        author=_storable(item.author),
        url=_storable(item.url),
        folders=tuple(folders),
        tags=_storable(item.tags),
        description=_storable(item.description),
    )


def _bounded(item: Item) -> Item:
    """Return the item without what is out of bounds and does not decide what the document is."""
    created, modified = item.created_at and bounded(item.created_at), item.modified_at and bounded(item.modified_at)
    size = item.size if item.size is None or 0 <= item.size < MAX_SIZE else None
    author = item.author and item.author[:MAX_AUTHOR]
    permissions = principals(item.permissions)
    before = (item.created_at, item.modified_at, item.size, item.author, item.permissions)
    # as in all but a few: a copy costs more than the comparison
    if all(map(operator.is_, before, (created, modified, size, author, permissions))):
        return item
    return msgspec.structs.replace(
        item, created_at=created, modified_at=modified, size=size, author=author, permissions=permissions
    )


def _refusal(one: Item | Refusal, reason: str, partition: str) -> Refusal:
    """Return the refusal of a document of which nothing needs to be as declared."""
    owner = _text(one.owner)
    return Refusal(
        source_id=_stored_id(one.source_id),
        partition=one.partition if _is_id(one.partition) else partition,
        title=_text(one.title),
        path=_text(one.path),
        reason=storable(reason),
        version=_text(one.version),
        owner=owner if owner == one.owner else None,
        collection_ids=tuple(filter(_is_id, one.collection_ids or ())),
    )


def _stored_id(source_id: Any) -> str:
    """Return the id under which a document is stored: a hash of one that cannot be stored, for which it is refused."""
    if _is_id(source_id):
        return source_id
    return "id-" + hashlib.sha256(str(source_id).encode("utf-8", "surrogatepass")).hexdigest()


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and is_storable(value) and _bytes(value) <= MAX_ID_BYTES


def _bytes(*texts: str) -> int:
    """Return the length in UTF-8, or a bound of it that is short enough."""
    longest = 4 * sum(map(len, texts))
    return longest if longest <= MAX_ID_BYTES else sum(len(text.encode()) for text in texts)


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else ""


def _storable(value: Any) -> Any:
    """Return a value of JSON with storable texts: the same, unless one is not."""
    try:
        if _NUL not in msgspec.json.encode(value):
            return value
    except UnicodeEncodeError:
        pass
    return storable_value(msgspec.to_builtins(value))


def _is_deep(value: Any, levels: int) -> bool:
    if is_object(value):
        return levels == 0 or any(_is_deep(one, levels - 1) for one in value.values())
    if is_list(value) or isinstance(value, tuple):
        return levels == 0 or any(_is_deep(one, levels - 1) for one in cast("Sequence[Any]", value))
    return False
