"""Emails, OpenDocument, RTF, EPUB, XML, YAML and source code: what is read of them, and what damaged ones say."""

import io
import zipfile
from collections.abc import Callable
from email.message import EmailMessage

import pytest

from assets.stages.parse import parse
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import EPUB, MSG, ODT, RTF, mime_type
from tests.fixtures import outlook


def shown(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def email(html: bool = False) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ana Ruiz <ana@acme.com>", "Ben <ben@acme.com>", "Größe der Pumpe"
    mail["Date"] = "Mon, 02 Feb 2026 10:00:00 +0100"
    if html:
        mail.set_content("<h2>Size</h2><p>The pump is <b>40 cm</b> wide.</p><script>no()</script>", subtype="html")
    else:
        mail.set_content("The pump is 40 cm wide.\n\n- inlet\n- outlet\n")
        mail.add_alternative("<p>Not this one.</p>", subtype="html")
    mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="pump.pdf")
    return mail.as_bytes()


def odt() -> bytes:
    from odfdo import Document, Header, List, Paragraph, Table

    document = Document("text")
    document.body.clear()
    document.body.append(Header(1, "Travel rules"))
    document.body.append(Paragraph("Book trains first."))
    document.body.append(List(["under four hours", "no flight"]))
    grid = Table("Prices", width=2, height=2)
    for place, value in {"A1": "Part", "B1": "Price", "A2": "Pump", "B2": "12"}.items():
        grid.set_value(place, value)
    document.body.append(grid)
    document.meta.title, document.meta.creator = "Travel", "Ana Ruiz"
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def with_password(data: bytes) -> bytes:
    """Return the file with the mark of an encrypted one in its manifest. Source: OpenDocument 1.3, part 2, section 4.4."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            mark = b"<manifest:encryption-data/></manifest:manifest>"
            archive.writestr(name, content.replace(b"</manifest:manifest>", mark) if "manifest" in name else content)
    return target.getvalue()


def epub(package: str = "", *, protected: bool = False) -> bytes:
    spine = package or (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>The Pump</dc:title><dc:creator>Ana Ruiz</dc:creator></metadata><manifest>"
        '<item id="two" href="text/2.xhtml"/><item id="one" href="text/chapter%201.xhtml"/><item id="cover" href="cover.xhtml"/>'
        '</manifest><spine><itemref idref="cover"/><itemref idref="one"/><itemref idref="two"/></spine></package>'
    )
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="book/package.opf"/></rootfiles></container>',
        )
        if protected:
            archive.writestr("META-INF/rights.xml", "<rights/>")
        archive.writestr("book/package.opf", spine)
        archive.writestr("book/cover.xhtml", "")
        archive.writestr("book/text/chapter 1.xhtml", "<html><body><h1>First</h1><p>It hums.</p></body></html>")
        archive.writestr("book/text/2.xhtml", "<html><body><h1>Second</h1><p>It leaks.</p></body></html>")
    return target.getvalue()


def msg(html: bytes | None = None) -> bytes:
    texts = {0x0037: "Größe der Pumpe", 0x0C1A: "Ana Ruiz", 0x0042: "Ana Ruiz", 0x0065: "ana@acme.com"}
    if html is None:
        texts[0x1000] = "The pump is 40 cm wide.\r\n\r\n" + "It hums. " * 600
    return outlook.message(
        texts,
        recipients=[("Ben", "ben@acme.com", 1)],
        attachment=("pump.pdf", b"%PDF-"),
        binaries={0x1013: html} if html is not None else {},
    )


def test_a_book_with_an_entry_without_a_file_is_read() -> None:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="none"/><item id="two" href="text/2.xhtml"/></manifest>'
        '<spine><itemref idref="none"/><itemref idref="two"/></spine></package>'
    )
    document = parse(epub(package), "application/epub+zip", title="x")
    assert document.text == "Second\n\nIt leaks."
    assert document.warnings == ["The book has 1 chapter that is damaged or missing."]


@pytest.mark.parametrize("html", [False, True])
def test_an_email_shows_its_head_its_text_and_the_names_of_its_attachments(html: bool) -> None:
    document = parse(email(html), "message/rfc822", title="mail.eml")
    assert (document.title, document.author) == ("Größe der Pumpe", "Ana Ruiz <ana@acme.com>")
    found = shown(document)
    assert found[0] == ("heading", "Größe der Pumpe")
    assert found[1] == (
        "paragraph",
        "From: Ana Ruiz <ana@acme.com>\nTo: Ben <ben@acme.com>\nDate: Mon, 02 Feb 2026 10:00:00 +0100",
    )
    body = [("heading", "Size"), ("paragraph", "The pump is 40 cm wide.")] if html else [
        ("paragraph", "The pump is 40 cm wide."), ("list", "- inlet\n- outlet"),
    ]  # fmt: skip
    assert found[2:] == [*body, ("heading", "Attachments"), ("list", "- pump.pdf")]


def test_an_outlook_message_reads_like_an_email() -> None:
    document = parse(msg(), MSG, title="mail.msg")
    assert document.title == "Größe der Pumpe"
    assert document.author is not None
    assert document.author.startswith("Ana Ruiz")
    found = shown(document)
    assert found[1][1].startswith("From: Ana Ruiz")
    assert "To: Ben" in found[1][1]
    assert found[2] == ("paragraph", "The pump is 40 cm wide.")
    assert found[-1] == ("list", "- pump.pdf")
    assert ("paragraph", "It leaks.") in shown(parse(msg(b"<p>It leaks.</p>"), MSG, title="mail.msg"))


def test_an_opendocument_text() -> None:
    document = parse(odt(), ODT, title="travel.odt")
    assert (document.title, document.author) == ("Travel", "Ana Ruiz")
    assert shown(document) == [
        ("heading", "Travel rules"),
        ("paragraph", "Book trains first."),
        ("list", "- under four hours\n- no flight"),
        ("table", "Part | Price\nPump | 12"),
    ]


def test_rtf() -> None:
    data = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0\b Travel\b0\par Gr\'fc\'dfe aus \u926?thens.\par}"
    assert shown(parse(data, RTF, title="a.rtf")) == [("paragraph", "Travel"), ("paragraph", "Grüße aus Ξthens.")]


def test_a_book_in_reading_order() -> None:
    document = parse(epub(), EPUB, title="pump.epub")
    assert (document.title, document.author) == ("The Pump", "Ana Ruiz")
    assert [text for _, text in shown(document)] == ["First", "It hums.", "Second", "It leaks."]


def test_xml_by_element_with_attributes_and_text_between_elements() -> None:
    data = b"""<?xml version="1.0"?><!DOCTYPE parts SYSTEM "parts.dtd">
    <parts xmlns="urn:x"><!-- no --><part id="7"><name>Pump</name><note>It <b>hums</b> at night.</note></part>
    <part id="8"><name>Valve</name></part></parts>"""
    assert shown(parse(data, "application/xml", title="a.xml")) == [
        ("list", "part (id 7)\n  name: Pump\n  note: It\n    b: hums\n    at night."),
        ("list", "part (id 8)\n  name: Valve"),
    ]


def test_xml_with_text_between_the_children_of_its_root() -> None:
    data = b"<doc>Hello <b>bold</b> world text <i>x</i> the end</doc>"
    assert shown(parse(data, "application/xml", title="a.xml")) == [
        ("paragraph", "doc: Hello"),
        ("list", "b: bold"),
        ("paragraph", "world text"),
        ("list", "i: x"),
        ("paragraph", "the end"),
    ]


def test_invalid_xml_is_plain_text() -> None:
    document = parse(b"<a><b>Pump</a>", "application/xml", title="a.xml")
    assert document.text == "<a><b>Pump</a>"
    assert "not valid XML" in document.warnings[0]


def test_xml_with_the_entities_of_html() -> None:
    data = b'<!DOCTYPE rss SYSTEM "rss.dtd"><rss><p>Caf&eacute; &laquo;<b>Roma</b>&raquo; &amp; more&hellip; today</p><p>&agr;1</p></rss>'
    assert shown(parse(data, "application/xml", title="a.xml")) == [
        ("list", "p: Café «\n  b: Roma\n  » & more… today"),
        ("list", "p: &agr;1"),
    ]


@pytest.mark.parametrize(
    "encoding", ["IBM855", "Windows-1251", "MacCyrillic", "x-mac-cyrillic", "ISO-8859-5", "koi8-r"]
)
@pytest.mark.parametrize("end", ["</a>", ""])
def test_xml_in_the_encoding_that_it_names(encoding: str, end: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?><a><b>Новости ярмарки</b>{end}'
    document = parse(data.encode(encoding.removeprefix("x-").replace("-cyr", "cyr")), "application/xml", title="a.xml")
    assert "Новости ярмарки" in document.text
    assert end or "not valid XML" in document.warnings[0]


def test_source_code_is_unchanged_and_parted_where_something_begins() -> None:
    code = "import os\n\n\ndef hum(x):\n    if x:\n\n        return 1\n\n\nclass Pump:\n    wide = 40\n"
    found = shown(parse(code.encode(), "text/x-source", title="a.py"))
    assert found == [
        ("code", "import os"),
        ("code", "def hum(x):\n    if x:\n\n        return 1"),
        ("code", "class Pump:\n    wide = 40"),
    ]
    settings = b"# pumps\nfirst:\n  wide: 40\n\nsecond:\n  wide: 41\n"
    assert [text for _, text in shown(parse(settings, "application/yaml", title="a.yaml"))] == [
        "# pumps\nfirst:\n  wide: 40",
        "second:\n  wide: 41",
    ]


@pytest.mark.parametrize(
    ("mime", "data", "reason"),
    [
        (ODT, b"PK\x03\x04broken", "damaged or not a OpenDocument"),
        (ODT, epub(), "not a OpenDocument file"),
        (ODT, with_password(odt()), "OpenDocument file is encrypted"),
        (EPUB, odt(), "not a EPUB file"),
        (EPUB, epub("<package>"), "EPUB file is damaged"),
        (EPUB, epub('<package><spine><itemref idref="x"/></spine></package>'), "EPUB file is damaged"),
        (EPUB, epub(protected=True), "protected"),
        (MSG, msg()[:700], "not a readable Outlook message"),
        (MSG, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "not a readable Outlook message"),
        ("message/rfc822", b"Only a note.\n", "neither a sender nor a subject"),
        (RTF, rb"{\rtf1}", "no text"),
        (RTF, rb"{\rtf1\u99999999999 ?}", "damaged"),
    ],
)
def test_what_cannot_be_read_says_why(mime: str, data: bytes, reason: str) -> None:
    with pytest.raises(SkipDocumentError, match=reason):
        parse(data, mime, title="a")


@pytest.mark.parametrize(
    ("name", "make", "mime"),
    [
        ("a.eml", email, "message/rfc822"),
        ("a.msg", msg, MSG),
        ("a.odt", odt, ODT),
        ("a.epub", epub, EPUB),
        ("a.rtf", lambda: rb"{\rtf1 x}", RTF),
        ("a.py", lambda: b"x = 1", "text/x-source"),
        ("a.yml", lambda: b"x: 1", "application/yaml"),
        ("a.xml", lambda: b"<a/>", "application/xml"),
        ("Makefile", lambda: b"all:\n\techo", "text/plain"),
    ],
)
def test_their_content_matches_their_names(name: str, make: Callable[[], bytes], mime: str) -> None:
    assert mime_type(name, make()[:8192]) == mime


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.msg", b"PK\x03\x04", "does not match its extension"),
        ("a.rtf", b"plain", "does not match its extension"),
        ("a.py", b"\x7fELF" + bytes(50), "does not match its extension"),
        ("core", b"\x7fELF" + bytes(50), "has no extension and is not text"),
        ("id_ed25519", b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3", "holds a private key"),
        (".env", b"TOKEN=1", "Hidden files are not supported"),
        ("docs/.netrc", b"machine x", "Hidden files are not supported"),
    ],
)
def test_what_is_something_else_or_private_is_refused(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(SkipDocumentError, match=reason):
        mime_type(name, data)


def test_a_chapter_that_cannot_be_read_is_left_out_of_its_book() -> None:
    spine = (
        '<package><manifest><item id="one" href="text/chapter%201.xhtml"/><item id="lost" href="lost.xhtml"/></manifest>'
        '<spine><itemref idref="lost"/><itemref idref="one"/><itemref idref="unknown"/></spine></package>'
    )
    document = parse(epub(spine), EPUB, title="a.epub")
    assert [text for _, text in shown(document)] == ["First", "It hums."]
    assert document.warnings == ["The book has 2 chapters that are damaged or missing."]
    data = bytearray(epub())
    data[data.index(b"text/2.xhtml") + len("text/2.xhtml")] ^= 0xFF
    document = parse(bytes(data), EPUB, title="a.epub")
    assert [text for _, text in shown(document)] == ["First", "It hums."]


def test_a_chapter_in_the_encoding_that_it_names() -> None:
    page = '<?xml version="1.0" encoding="iso-8859-2"?><html><body><p>Zażółć gęślą jaźń</p></body></html>'
    target = io.BytesIO(epub())
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("book/pl.xhtml", page.encode("iso-8859-2"))
        archive.writestr(
            "book/other.opf",
            '<package><manifest><item id="pl" href="pl.xhtml"/></manifest><spine><itemref idref="pl"/></spine></package>',
        )
        archive.writestr(
            "META-INF/container.xml", archive.read("META-INF/container.xml").replace(b"package.opf", b"other.opf")
        )
    assert parse(target.getvalue(), EPUB, title="a.epub").text == "Zażółć gęślą jaźń"
