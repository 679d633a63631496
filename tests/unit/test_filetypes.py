"""A file's content must match its name, and a refusal lists the supported types."""

import io
import zipfile

import pytest

from assets.stages.parse import SUPPORTED
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import DOCX, MIME_TYPES, PPTX, SUPPORTED_MIME_TYPES, XLSX, mime_type

EXE = b"MZ\x90\x00\x03\x00\x00\x00" + b"\x00" * 120
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 100


def office(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "<x/>" * 50)
    return buffer.getvalue()


WORD = office("[Content_Types].xml", "_rels/.rels", "word/document.xml")
SLIDES = office("[Content_Types].xml", "ppt/presentation.xml")
SHEET = office("[Content_Types].xml", "xl/workbook.xml")


@pytest.mark.parametrize(
    ("name", "content", "mime"),
    [
        ("a.md", b"# Hello", "text/markdown"),
        ("A.MDX", b"# Hello", "text/markdown"),
        ("a.txt", "Grüße".encode("latin-1"), "text/plain"),
        ("a.txt", "Grüße".encode("utf-16"), "text/plain"),
        ("a.txt", b"page one\x0cpage two", "text/plain"),
        ("a.csv", b"a,b\n1,2\n", "text/csv"),
        ("a.json", b"{}", "application/json"),
        ("a.htm", b"<p>x", "text/html"),
        ("a.pdf", b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        ("a.pdf", b"\n\n%PDF-1.4", "application/pdf"),
        ("a.png", PNG, "image/png"),
        ("a.jpeg", b"\xff\xd8\xff\xe1rest", "image/jpeg"),
        ("a.docx", WORD, DOCX),
        ("a.pptx", SLIDES, PPTX),
        ("a.xlsx", SHEET, XLSX),
    ],
)
def test_content_that_fits_its_name(name: str, content: bytes, mime: str) -> None:
    assert mime_type(name, content) == mime


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("report.pdf", EXE),
        ("report.docx", EXE),
        ("report.md", EXE),
        ("report.txt", b"\x7fELF\x02\x01\x01" + b"\x00" * 50),
        ("report.txt", b"%PDF-1.7\n text only"),
        ("report.png", b"\xff\xd8\xff\xe0"),
        ("report.jpg", PNG),
        ("report.pdf", b"x" * 1024 + b"%PDF-1.7"),
        ("report.docx", SHEET),
        ("report.xlsx", WORD),
        ("report.docx", b"%PDF-1.7"),
    ],
)
def test_content_that_is_something_else(name: str, content: bytes) -> None:
    with pytest.raises(SkipDocumentError, match=rf"^{name} does not match its extension.*Supported: .*\.pdf"):
        mime_type(name, content)


def test_a_renamed_program_is_called_what_it_is() -> None:
    with pytest.raises(SkipDocumentError, match="a Windows program"):
        mime_type("invoice.pdf", EXE)


@pytest.mark.parametrize("name", ["setup.exe", "archive.rar", ".md", "a.odg"])
def test_unsupported_types_name_the_supported_ones(name: str) -> None:
    with pytest.raises(SkipDocumentError, match=r"not supported\. Supported: \.md, .*text without an extension\.$"):
        mime_type(name, b"anything")


def test_an_empty_file_says_so() -> None:
    with pytest.raises(SkipDocumentError, match="empty"):
        mime_type("a.pdf", b"")


def test_an_office_file_under_a_password_says_what_to_do() -> None:
    with pytest.raises(SkipDocumentError, match=r"password.*save it without"):
        mime_type("plan.docx", OLE)


def test_every_supported_type_has_a_parser() -> None:
    assert SUPPORTED_MIME_TYPES <= SUPPORTED
    assert all(extension == extension.lower() and extension.startswith(".") for extension in MIME_TYPES)
