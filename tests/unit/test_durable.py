"""What is durable on return: the folder of a file that has been moved to its place, and a folder that was made for it, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resources.core.durable import write_atomic
from resources.stores.blobs import Blobs


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were written to the disk, in order."""
    paths: list[str] = []
    whole = os.fsync

    def fsync(handle: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        whole(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_a_file_that_replaces_another(tmp_path: Path, synced: list[str]) -> None:
    write_atomic(tmp_path / "state.json", b"{}")
    assert synced == [str(tmp_path / "state.json.new"), str(tmp_path)]
    assert (tmp_path / "state.json").read_bytes() == b"{}"


def test_the_bytes_of_a_document(tmp_path: Path, synced: list[str]) -> None:
    blobs = Blobs(tmp_path.as_uri())
    blob = blobs.put([b"The otter."])
    root = tmp_path / "blobs"
    place = root / blob.content_hash[:2] / blob.content_hash[2:4]
    assert synced[1:] == [str(place), str(place.parent), str(root)]
    synced.clear()
    blobs.put([b"The otter."])
    assert synced[1:] == [str(place)]
