"""Text recognition runs as other parsers do: without network, programs or files, and bounded in memory and time."""

from __future__ import annotations

import io
import json
import socket
import sys
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from assets.parsing.confinement import Confinement, examine
from assets.parsing.pool import ParseJob, ParseOutcome, ParserPool
from assets.stages.parse import ocr
from tests.fixtures import papers
from tests.fixtures.hostile_parser import REFUSED

HOSTILE = [sys.executable, str(Path(__file__).parent.parent / "fixtures" / "hostile_recogniser.py")]
SECONDS, MEMORY_MB = 30, 1024
RECOGNITION = pytest.mark.skipif(
    not ocr.languages(), reason="text recognition is not installed; make setup OCR=1 installs it"
)


def picture() -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (80, 40), "white").save(target, "PNG")
    return target.getvalue()


def scanned_page() -> bytes:
    target = io.BytesIO()
    sheet = Canvas(target)
    sheet.drawImage(ImageReader(Image.new("RGB", (80, 40), "white")), 60, 600)
    sheet.save()
    return target.getvalue()


FILES = {"image/png": picture, "application/pdf": scanned_page}


def parsed(kind: str, does: str, home: Path, *, port: int = 0, seconds: float = SECONDS) -> ParseOutcome:
    """Return the outcome of a file whose picture is read by an engine that `does` this."""
    given = {"does": does, "keys": str(home / "keys.json"), "folder": str(home), "port": port}
    job = ParseJob(key="probe", mime_type=kind, title="x", data=FILES[kind]())
    with ParserPool(1, seconds, MEMORY_MB, [*HOSTILE, json.dumps(given)]) as pool:
        (outcome,) = pool.run([job])
    return outcome


@pytest.fixture(scope="module")
def enforced() -> Confinement:
    return examine()


@pytest.mark.parametrize("kind", FILES)
def test_an_engine_that_was_taken_over_is_refused(kind: str, enforced: Confinement, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"secret_key": "x"}', encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        outcome = parsed(kind, "attack", tmp_path, port=server.getsockname()[1])
    assert outcome.document is not None, outcome.error
    told = json.loads(outcome.document.text.partition(ocr.READ)[2])
    expected = {name for layer, names in REFUSED.items() if layer not in enforced.missing for name in names}
    assert {name: told[name] for name in expected if not told[name].startswith("refused: ")} == {}
    if enforced.missing:
        pytest.skip(f"not restricted here: {enforced.missing}")


@pytest.mark.parametrize("kind", FILES)
def test_an_engine_that_takes_too_much_ends_with_its_file(kind: str, tmp_path: Path) -> None:
    grown = parsed(kind, "grow", tmp_path)
    assert grown.error == f"Parsing needed more than {MEMORY_MB} MB of memory (CONCORDANCE_LIMITS__PARSE_MEMORY_MB)."
    spun = parsed(kind, "spin", tmp_path, seconds=2)
    assert spun.error == "Parsing took longer than 2 s (CONCORDANCE_LIMITS__PARSE_SECONDS)."


@RECOGNITION
def test_a_confined_parser_reads_pictures_and_scanned_pages() -> None:
    """Tesseract and its language data are loaded after the confinement, so they must be among the readable files."""
    large = Image.open(io.BytesIO(papers.scanned_picture())).resize((9_300, 5_250))
    target = io.BytesIO()
    large.save(target, "PNG")
    jobs = [
        ParseJob(key="pdf", mime_type="application/pdf", title="x", data=papers.scan()),
        ParseJob(key="png", mime_type="image/png", title="x", data=papers.scanned_picture()),
        ParseJob(key="large", mime_type="image/png", title="x", data=target.getvalue()),
    ]
    with ParserPool(1, SECONDS, MEMORY_MB) as pool:
        outcomes = {outcome.key: outcome for outcome in pool.run(jobs)}
    for name, outcome in outcomes.items():
        assert outcome.document is not None, (name, outcome.error)
        assert ocr.READ in outcome.document.text, name
        assert "The seal of the parcel was broken on arrival." in outcome.document.text, name
    assert len(outcomes) == len(jobs)
