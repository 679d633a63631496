"""Blobs are whole or absent, named by their bytes, and the same through a folder and an object store."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.core.errors import ConfigurationError, FailedDocumentError, ServiceUnavailableError
from resources.stores.blobs import PIECE, Blob, Blobs

ABSENT = "0" * 64


@pytest.fixture(params=["folder", "object store"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return Blobs((tmp_path / "a lake").as_uri() if request.param == "folder" else "memory:///")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_bytes_come_back_under_their_hash(blobs: Blobs) -> None:
    data = os.urandom(300_000)
    blob = blobs.put(data[start : start + 7919] for start in range(0, len(data), 7919))
    assert blob == Blob(hashlib.sha256(data).hexdigest(), len(data))
    assert blobs.read(blob.content_hash) == data
    assert blobs.exists(blob.content_hash)


def test_the_same_bytes_are_one_blob(blobs: Blobs) -> None:
    assert blobs.put([b"ab", b"c"]) == blobs.put([b"abc"])
    assert blobs.put([]).size == 0


def test_a_blob_is_read_in_pieces(blobs: Blobs) -> None:
    content = os.urandom(PIECE) * 3 + b"end"
    blob = blobs.put([content])
    size, pieces = blobs.stream(blob.content_hash)
    assert (size, b"".join(pieces)) == (len(content), content)
    blobs.delete(blob.content_hash)
    with pytest.raises(FailedDocumentError):
        blobs.stream(blob.content_hash)


def test_a_blob_larger_than_one_part_of_an_upload(blobs: Blobs) -> None:
    data = bytes(range(256)) * 4096 * 12
    blob = blobs.put([data])
    assert hashlib.sha256(blobs.read(blob.content_hash)).hexdigest() == blob.content_hash


def test_what_is_not_committed_is_not_there(blobs: Blobs) -> None:
    with blobs.writer() as writer:
        writer.write(b"half")
        assert writer.size == 4
    assert not blobs.exists(hashlib.sha256(b"half").hexdigest())


def test_a_failing_source_leaves_nothing(blobs: Blobs) -> None:
    def pieces():
        yield b"half"
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="dead"):
        blobs.put(pieces())
    assert not blobs.exists(hashlib.sha256(b"half").hexdigest())


def test_deletion_is_final_and_repeatable(blobs: Blobs) -> None:
    blob = blobs.put([b"secret"])
    blobs.delete(blob.content_hash)
    blobs.delete(blob.content_hash)
    assert not blobs.exists(blob.content_hash)
    with pytest.raises(FailedDocumentError, match="fetches them again"):
        blobs.read(blob.content_hash)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_only_hashes_are_names(blobs: Blobs, name: str) -> None:
    for act in (blobs.read, blobs.exists, blobs.delete, blobs.local_path):
        with pytest.raises(ValueError, match="sha256"):
            act(name)


def test_threads_write_at_once(blobs: Blobs) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: blobs.put([str(number % 5).encode()]), range(100)))
    assert {blobs.read(blob.content_hash) for blob in made} == {b"0", b"1", b"2", b"3", b"4"}


def test_local_path_is_the_file_of_a_folder_alone(tmp_path: Path) -> None:
    local = Blobs(tmp_path.as_uri())
    blob = local.put([b"abc"])
    path = local.local_path(blob.content_hash)
    digest = blob.content_hash
    assert path == tmp_path / "blobs" / digest[:2] / digest[2:4] / digest
    assert path.read_bytes() == b"abc"
    assert Blobs("memory:///").local_path(digest) is None


def test_no_unfinished_file_stays(tmp_path: Path) -> None:
    local = Blobs(tmp_path.as_uri())
    with local.writer() as writer:
        writer.write(b"x")
    blob = local.put([b"kept"])
    assert files(tmp_path) == [local.local_path(blob.content_hash)]


def test_a_killed_writer_leaves_no_blob_and_the_sweep_takes_the_rest(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from resources.stores.blobs import Blobs;"
        "w = Blobs(sys.argv[1]).writer(); w.write(b'half' * 100000); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, tmp_path.as_uri()], check=False, timeout=60)
    assert killed.returncode == -9
    local = Blobs(tmp_path.as_uri())
    (left,) = files(tmp_path)
    assert local.sweep() == 0  # it may be in use
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    assert local.sweep() == 1
    assert files(tmp_path) == []


def test_an_address_that_cannot_be_opened_names_the_variable() -> None:
    with pytest.raises(ConfigurationError, match="CONCORDANCE_LAKE_URL"):
        Blobs("ftp://example.org/lake")
    with pytest.raises(ConfigurationError, match="CONCORDANCE_LAKE_URL"):
        Blobs("file:///proc/version/lake")


def test_the_size_of_the_lake_is_that_of_all_its_files(blobs: Blobs) -> None:
    before = blobs.lake_size()
    blobs.put([b"a" * 100, b"b"])
    blobs.put([b"c" * 50])
    assert blobs.lake_size() - before == 151


def test_the_size_of_a_lake_is_unknown_if_a_folder_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Blobs(tmp_path.as_uri())
    blob = local.put([b"a" * 100])
    scan = os.scandir

    def refused(folder: str) -> object:
        if folder.endswith(blob.content_hash[2:4]):
            raise PermissionError(13, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(ServiceUnavailableError, match="Permission denied"):
        local.lake_size()
