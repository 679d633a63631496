"""Routes under `/collections/{name}/snapshots`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import msgspec
from multipart import MultipartError, PushMultipartParser, parse_options_header

from resources.servers.vector import snapshots
from resources.servers.vector.faults import bad_request
from resources.servers.vector.http import Application, Raw, Request

_CHUNK = 1024 * 1024
_MAX_CONTENT_TYPE = 1024


class Recover(msgspec.Struct):
    """Location of the snapshot. Cluster settings have no effect here."""

    location: str
    checksum: str | None = None


def add_routes(app: Application) -> None:
    """Register the routes."""
    base = "/collections/*/snapshots"
    app.add("POST", base, create)
    app.add("GET", base, list_all)
    app.add("GET", f"{base}/*", download)
    app.add("DELETE", f"{base}/*", delete)
    app.add("PUT", f"{base}/recover", recover)
    app.add("POST", f"{base}/upload", upload)


async def create(request: Request) -> Any:
    return await snapshots.create(request.store, request.store.get(request.name))


async def list_all(request: Request) -> Any:
    return snapshots.listed(request.store, request.store.get(request.name).name)


async def download(request: Request) -> Raw:
    path = snapshots.find(request.store, _target(request), request.args[1])
    headers = [
        (b"content-length", b"%d" % path.stat().st_size),
        (b"content-disposition", b'attachment; filename="%b"' % path.name.encode()),
    ]
    return Raw(_pieces(path), b"application/gzip", headers)


async def delete(request: Request) -> Any:
    return snapshots.delete(request.store, _target(request), request.args[1])


async def recover(request: Request) -> Any:
    """Restore from a snapshot of this server, given by its file URL or just its name; others must be uploaded."""
    body = await request.body(Recover)
    url = urlsplit(body.location)
    path = Path(unquote(url.path))
    root = request.store.snapshots.resolve()
    if url.scheme not in ("", "file"):
        raise bad_request("snapshots are not fetched from other hosts: upload the file to snapshots/upload")
    if not path.is_absolute():
        path = snapshots.find(request.store, _target(request), str(path))
    resolved = await asyncio.to_thread(path.resolve)
    if not resolved.is_relative_to(root) or not resolved.is_file():
        raise bad_request(f"only snapshots below {root} can be recovered: upload any other to snapshots/upload")
    return await snapshots.restore(request.store, request.name, resolved, body.checksum)


async def upload(request: Request) -> Any:
    """Restore from the form field `snapshot`, streamed to disk."""
    request.store.snapshots.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=request.store.snapshots, prefix="upload-") as file:
        await _receive(request, file)
        file.flush()
        return await snapshots.restore(request.store, request.name, Path(file.name), request.query("checksum"))


async def _receive(request: Request, file: IO[bytes]) -> None:
    header = request.headers.get(b"content-type", b"")[:_MAX_CONTENT_TYPE].decode("latin-1")
    boundary = parse_options_header(header)[1].get("boundary")
    if not boundary:
        raise bad_request("send the snapshot as multipart/form-data in the field `snapshot`")
    try:
        with PushMultipartParser(boundary) as parser:
            async for piece in request.stream():
                for event in parser.parse(piece) if piece else ():
                    if isinstance(event, bytes):
                        file.write(event)
    except MultipartError as error:
        raise bad_request(f"the form could not be read: {error}") from error


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _CHUNK):
            yield piece


def _target(request: Request) -> str:
    return request.store.aliases.get(request.name, request.name)
