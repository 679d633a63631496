"""What the embedded vector server says of a collection that it cannot open."""

from __future__ import annotations

import errno

import pytest

from resources.servers.vector.faults import RequestError
from resources.servers.vector.files import unopened


@pytest.mark.parametrize(
    ("error", "deletes"),
    [
        (OSError(errno.EMFILE, "Too many open files"), False),
        (OSError(errno.EIO, "Input/output error"), False),
        (OSError(errno.ESTALE, "Stale file handle"), False),
        (
            RequestError(500, "Service runtime error: IO Error: Transport endpoint is not connected (os error 107)"),
            False,
        ),
        (RequestError(500, "Service runtime error: IO Error: Permission denied (os error 13)"), False),
        (
            RequestError(500, "failed to open WAL: Error { kind: OpenFile, source: Os { code: 24, kind: Other } }"),
            False,
        ),
        (RequestError(500, "Service runtime error: IO Error: No such file or directory (os error 2)"), True),
        (RequestError(400, "Wrong input: expected value at line 1 column 1"), True),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), True),
    ],
)
def test_a_collection_is_to_be_deleted_only_if_it_is_damaged(error: Exception, deletes: bool) -> None:
    assert ("delete" in unopened(error)) is deletes
