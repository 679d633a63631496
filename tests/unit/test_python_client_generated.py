"""The generated modules of the Python client are those of the OpenAPI document."""

from __future__ import annotations

from pathlib import Path

from clients.python.generator.__main__ import PACKAGE, document, write
from clients.python.generator.document import operations


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}


def test_the_generated_client_is_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "generated"
    folder.mkdir()
    described = document(tmp_path)
    write(folder, described)
    assert texts(folder) == texts(PACKAGE), "The OpenAPI document has changed. Run: make client"
    by_hand = {one.id for one in operations(described) if one.form}
    assert by_hand == {"upload"}, "The client needs a method written by hand for an operation that takes a form."
