"""What a folder that cannot be listed holds is unknown: a copy without it would look complete."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.servers.vector.files import size_on_disk, sync_tree
from resources.stores.lake_copy import Copied, copy_folder


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
