"""What a folder that cannot be listed holds is unknown: a copy without it would look complete."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.servers.vector.files import size_on_disk, sync_tree
from resources.stores.lake_copy import SHARES, Copied, copy_folder


def copied(folder: Path) -> Copied:
    return copy_folder(folder, folder.with_name("copy"))


@pytest.mark.parametrize("walk", [copied, size_on_disk, sync_tree])
def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    walk: Callable[[Path], Any], tmp_path: Path
) -> None:
    (tmp_path / "folder").write_bytes(b"This is no folder.")
    with pytest.raises(NotADirectoryError):
        walk(tmp_path / "folder")


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert copied(tmp_path / "folder") == Copied()
    assert size_on_disk(tmp_path / "folder") == 0


def test_a_blob_that_rotted_in_the_earlier_backup_is_copied_again_within_some_backups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, earlier = tmp_path / "lake", tmp_path / "earlier"
    lake.mkdir()
    for number in range(20):
        content = f"content {number}".encode()
        (lake / hashlib.sha256(content).hexdigest()).write_bytes(content)
    copy_folder(lake, earlier)
    rotten = min(earlier.iterdir())
    rotten.write_bytes(b"x" * rotten.stat().st_size)
    copied: list[str] = []
    for share in range(SHARES):
        monkeypatch.setattr("resources.stores.lake_copy.randbelow", {SHARES: share}.__getitem__)
        made = tmp_path / f"share {share}"
        copy_folder(lake, made, earlier)
        copied += [one.name for one in made.iterdir() if not one.samefile(earlier / one.name)]
    assert copied == [rotten.name]
