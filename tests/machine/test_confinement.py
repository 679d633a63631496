"""The reach of a compromised parser: nothing, on a kernel that enforces all layers."""

from __future__ import annotations

import io
import json
import re
import socket
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from assets.parsing.confinement import Confinement, examine
from assets.parsing.pool import ParseJob, ParserPool
from orchestration.diagnosis import doctor
from resources.servers.drop_rights import CAP_DAC_READ_SEARCH
from tests.fixtures.hostile_parser import REFUSED

HOSTILE = [sys.executable, str(Path(__file__).parent.parent / "fixtures" / "hostile_parser.py")]


@pytest.fixture(scope="module")
def enforced() -> Confinement:
    return examine()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    keys = home / "keys.json"
    keys.write_text('{"secret_key": "x"}', encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        data = json.dumps({"keys": str(keys), "folder": str(home), "port": server.getsockname()[1]}).encode()
        job = ParseJob(key="probe", mime_type="text/plain", title="x", data=data)
        with ParserPool(1, 30, 512, HOSTILE) as pool:
            (outcome,) = pool.run([job])
    assert outcome.document is not None, outcome.error
    return json.loads(outcome.document.text)


@pytest.mark.parametrize(("layer", "attempt"), [(layer, name) for layer, names in REFUSED.items() for name in names])
def test_a_parser_that_was_taken_over_is_refused(
    enforced: Confinement, outcomes: dict[str, str], layer: str, attempt: str
) -> None:
    if layer in enforced.missing:
        pytest.skip(f"{layer} are not restricted here: {enforced.missing[layer]}")
    assert outcomes[attempt].startswith("refused: "), outcomes[attempt]


def test_a_parser_gains_no_privileges_and_still_has_threads(enforced: Confinement, outcomes: dict[str, str]) -> None:
    assert outcomes["thread"] == "done"
    if "no new privileges" in enforced.missing:
        pytest.skip(enforced.missing["no new privileges"])
    assert "NoNewPrivs:\t1" in outcomes["status"]


def test_a_parser_keeps_no_capability_but_to_reach_the_interpreter(
    enforced: Confinement, outcomes: dict[str, str]
) -> None:
    if "no capabilities" in enforced.missing:
        pytest.skip(enforced.missing["no capabilities"])
    held = {name: int(value, 16) for name, value in re.findall(r"Cap(Eff|Prm|Amb):\t([0-9a-f]+)", outcomes["status"])}
    assert held["Amb"] == 0
    assert held["Eff"] == held["Prm"]
    assert held["Eff"] in (0, 1 << CAP_DAC_READ_SEARCH)


def test_a_parser_sees_no_secret(outcomes: dict[str, str]) -> None:
    assert not [name for name in json.loads(outcomes["environment"]) if "CONCORDANCE" in name or "KEY" in name]


def test_a_confined_parser_reads_the_formats(enforced: Confinement) -> None:
    """Libraries are imported after the confinement, so they must be allowed to read their files."""
    from docx import Document
    from openpyxl import Workbook
    from PIL import Image
    from pptx import Presentation
    from reportlab.pdfgen.canvas import Canvas

    files = {name: io.BytesIO() for name in ("docx", "xlsx", "pptx", "pdf", "png")}
    document, book, deck, sheet = Document(), Workbook(), Presentation(), Canvas(files["pdf"])
    document.add_paragraph("Thirty days a year.")
    document.save(files["docx"])
    book.create_sheet("Days").append(["Thirty days a year."])
    book.save(files["xlsx"])
    title = deck.slides.add_slide(deck.slide_layouts[5]).shapes.title
    assert title is not None
    title.text = "Thirty days a year."
    deck.save(files["pptx"])
    sheet.drawString(60, 780, "Thirty days a year.")
    sheet.save()
    Image.new("RGB", (8, 8)).save(files["png"], "PNG")
    office = "application/vnd.openxmlformats-officedocument."
    kinds = {
        "docx": office + "wordprocessingml.document", "xlsx": office + "spreadsheetml.sheet",
        "pptx": office + "presentationml.presentation", "pdf": "application/pdf", "png": "image/png",
    }  # fmt: skip
    jobs = [
        ParseJob(key=name, mime_type=kinds[name], title="Thirty days a year.", data=file.getvalue())
        for name, file in files.items()
    ]
    texts = {
        "html": b"<p>Thirty days a year.",
        "markdown": b"Thirty days a year.",
        "csv": "Thirty days a year.\n\u00e9".encode("cp1252"),
    }
    jobs += [ParseJob(key=name, mime_type=f"text/{name}", title="x", data=data) for name, data in texts.items()]
    mail = EmailMessage()
    mail["Subject"] = "Thirty days a year."
    mail.set_content("See the attachment.")
    mail.add_attachment(b"\0", maintype="application", subtype="x-unheard-of", filename="drawing")
    jobs.append(ParseJob(key="mail", mime_type="message/rfc822", title="x", data=mail.as_bytes()))
    with ParserPool(1, 30, 512) as pool:
        outcomes = {outcome.key: outcome for outcome in pool.run(jobs)}
    assert enforced.enforced
    for name, outcome in outcomes.items():
        assert outcome.document is not None, (name, outcome.error)
        assert "Thirty days a year." in outcome.document.text, name
    assert len(outcomes) == len(jobs)


def test_doctor_says_what_holds_a_parser(enforced: Confinement) -> None:
    (finding,) = doctor.parsers()
    assert finding.ok == (not enforced.missing or sys.platform != "linux")
    for name in (*enforced.enforced, *enforced.missing):
        assert name in finding.detail
