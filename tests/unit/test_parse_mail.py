"""Emails and Outlook messages as people send them: hidden recipients, forwarded messages, attachments, odd charsets and boundaries."""

import io
import struct
from email.message import EmailMessage

import pytest
from reportlab.pdfgen.canvas import Canvas

from assets.stages.parse import parse
from assets.stages.parse.mail import MAX_ATTACHMENTS, decoded
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import MSG
from tests.fixtures import outlook

EML = "message/rfc822"
TEXTS = {0x0037: "Pump", 0x0C1A: "Ana Ruiz", 0x5D01: "ana@acme.com", 0x1000: "It hums."}


def email(text: str = "It hums.", subject: str = "Pump") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ana <ana@acme.com>", "Ben <ben@acme.com>", subject
    mail.set_content(text)
    return mail


def read(data: bytes, kind: str = EML) -> ParsedDocument:
    return parse(data, kind, title="mail")


def sections(document: ParsedDocument) -> dict[str, tuple[str, ...]]:
    return {document.text[block.start : block.end]: block.section_path for block in document.blocks}


def raw(head: str, body: bytes) -> bytes:
    return f"From: ana@acme.com\r\nSubject: Pump\r\nMIME-Version: 1.0\r\n{head}\r\n\r\n".encode() + body


def test_hidden_recipients_are_not_named() -> None:
    people = [("Ben", "ben@acme.com", 1), ("Cleo", "cleo@acme.com", 2), ("Dana", "dana@acme.com", 3)]
    text = read(outlook.message(TEXTS, recipients=people), MSG).text
    assert "To: Ben\nCc: Cleo" in text
    assert "ana@acme.com" in text
    assert "Dana" not in text
    assert "dana@" not in text


@pytest.mark.parametrize(
    ("kind", "named"), [(0x10000001, True), (0x10000003, False), (0x80000002, True), (0, False), (None, False)]
)
def test_a_recipient_is_named_only_if_every_reader_sees_the_name(kind: int | None, named: bool) -> None:
    people = [("Ben", "ben@acme.com", 1), ("Dana", "dana@acme.com", kind)]
    assert ("Dana" in read(outlook.message(TEXTS, recipients=people), MSG).text) is named


def test_recipients_without_types_are_those_that_outlook_displays() -> None:
    people = [("Ben", "ben@acme.com", None), ("Dana", "dana@acme.com", None)]
    text = read(outlook.message(TEXTS | {0x0E04: "Ben"}, recipients=people), MSG).text
    assert "To: Ben" in text
    assert "Dana" not in text


def test_the_hidden_recipients_of_an_email_are_not_named() -> None:
    mail = email()
    mail["Bcc"] = "Dana <dana@acme.com>"
    assert "dana" not in read(mail.as_bytes()).text.lower()


def test_an_attachment_is_read_below_a_heading_that_names_it() -> None:
    mail = email()
    mail.add_attachment("City,Days\nRome,30\n", subtype="csv", filename="leave.csv")
    mail.add_attachment(b"# Rules\n\nBook trains first.", maintype="text", subtype="markdown", filename="rules.md")
    document = read(mail.as_bytes())
    found = sections(document)
    assert found["Rome | 30"] == ("Pump", "In attachment leave.csv")
    assert found["Book trains first."] == ("Pump", "In attachment rules.md", "Rules")
    assert document.warnings == []


def test_forwarded_messages_and_what_is_attached_to_them_are_read() -> None:
    inner = email("The valve leaks.", "Valve")
    inner.add_attachment("Part\nSeal\n", subtype="csv", filename="parts.csv")
    middle = email("See below.", "Fwd")
    middle.add_attachment(inner)
    outer = email("And this.", "Outer")
    outer.add_attachment(middle)
    found = sections(read(outer.as_bytes()))
    assert found["The valve leaks."] == ("Outer", "In attachment Fwd", "Fwd", "In attachment Valve", "Valve")
    assert found["Seal"][-1] == "In attachment parts.csv"


def test_an_email_saved_as_a_file_is_read_as_an_attachment() -> None:
    mail = email()
    saved = email("The valve leaks.", "Valve").as_bytes()
    mail.add_attachment(saved, maintype="application", subtype="octet-stream", filename="valve.eml")
    assert sections(read(mail.as_bytes()))["The valve leaks."] == ("Pump", "In attachment valve.eml", "Valve")


def test_messages_in_messages_are_read_to_a_depth() -> None:
    mail = email("deepest", "level 9")
    for level in range(8, 0, -1):
        outer = email(f"text {level}", f"level {level}")
        outer.add_attachment(mail)
        mail = outer
    document = read(mail.as_bytes())
    assert "text 4" in document.text
    assert "text 5" not in document.text
    assert any("named but not read" in warning for warning in document.warnings)


def test_attachments_are_read_to_a_number() -> None:
    mail = email()
    for number in range(MAX_ATTACHMENTS + 5):
        mail.add_attachment(f"content-{number}.", filename=f"file{number}.txt")
    document = read(mail.as_bytes())
    assert f"content-{MAX_ATTACHMENTS - 1}." in document.text
    assert f"content-{MAX_ATTACHMENTS}." not in document.text
    assert f"file{MAX_ATTACHMENTS + 4}.txt" in document.text
    assert len([warning for warning in document.warnings if "named but not read" in warning]) == 1


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("pump.docx", b"PK\x03\x04 cut", "damaged"),
        ("setup.exe", b"MZ\x90", "not supported"),
        ("pump.pdf", b"%PDF-1.4", "damaged"),
        ("empty.txt", b"", "empty"),
    ],
)
def test_an_attachment_that_cannot_be_read_is_named_in_a_warning(name: str, data: bytes, reason: str) -> None:
    mail = email()
    mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    document = read(mail.as_bytes())
    assert "It hums." in document.text
    assert [name in warning and reason in warning for warning in document.warnings] == [True]


def test_a_message_within_another_that_cannot_be_read_is_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(data: bytes) -> None:
        raise AttributeError("a fault of the library")

    monkeypatch.setattr("assets.stages.parse.msg.message", fails)
    mail = email()
    mail.add_attachment(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", maintype="application", subtype="vnd.ms-outlook", filename="a.msg"
    )
    document = read(mail.as_bytes())
    assert "It hums." in document.text
    assert ["a.msg" in warning for warning in document.warnings] == [True]


def test_a_digest() -> None:
    parts = "".join(f"--x\r\n\r\nFrom: a@b.c\r\nSubject: No {n}\r\n\r\nMessage number {n}.\r\n" for n in (1, 2))
    text = read(raw('Content-Type: multipart/digest; boundary="x"', f"{parts}--x--\r\n".encode())).text
    assert "Message number 1." in text
    assert "Message number 2." in text


def test_the_formatted_text_is_read_if_the_plain_one_is_a_stub() -> None:
    mail = email("View this email in your browser: https://acme.com/x")
    mail.add_alternative(f"<h1>News</h1><p>{'The pump hums. ' * 20}</p>", subtype="html")
    assert "The pump hums." in read(mail.as_bytes()).text
    same = email("The pump hums.\n")
    same.add_alternative("<p>The pump <b>hums</b>.</p>", subtype="html")
    assert read(same.as_bytes()).text.endswith("The pump hums.")


@pytest.mark.parametrize("subtype", ["x-amp-html", "enriched", "watch-html"])
def test_alternatives_in_other_markup_are_left_out(subtype: str) -> None:
    mail = email()
    mail.add_alternative(f"<bold>The pump hums in {subtype}.</bold>", subtype=subtype)
    mail.add_alternative("<p>It <b>hums</b>.</p>", subtype="html")
    text = read(mail.as_bytes()).text
    assert text.endswith("It hums.")
    assert "bold" not in text
    only = EmailMessage()
    only["From"], only["Subject"] = "ana@acme.com", "Pump"
    only.make_alternative()
    only.add_alternative(f"<bold>The pump hums in {subtype}.</bold>", subtype=subtype)
    assert "The pump hums" in read(only.as_bytes()).text


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("x-unknown", "Größe".encode(), "Größe"),
        ("utf-8Content-Transfer-Encoding: 8bit", "Größe".encode(), "Größe"),
        ("us-ascii", "Größe in Gramm, süß".encode("cp1252"), "Größe in Gramm, süß"),
        ("iso-8859-1", "an “offer” – 5 €".encode("cp1252"), "an “offer” – 5 €"),
        ("gb2312", "朱镕基".encode("gb18030"), "朱镕基"),
        ("punycode", b"plain words", "plain words"),
        ('"utf-8', "Größe".encode(), "Größe"),
        ("zlib", b"plain words", "plain words"),
    ],
)
def test_a_charset_that_is_unknown_or_wrong_is_guessed(charset: str, body: bytes, text: str) -> None:
    assert text in read(raw(f"Content-Type: text/plain; charset={charset}", body)).text


def test_a_stray_byte_in_an_email_is_noted() -> None:
    body = ("Grüße aus Köln. " * 3).encode() + "Müller".encode("cp1252")
    for kind in ("text/plain", "text/html"):
        document = read(raw(f"Content-Type: {kind}; charset=utf-8", body))
        assert document.text.endswith("Grüße aus Köln. Müller")
        assert document.warnings == ["Some bytes are not valid UTF-8 and were read as Windows-1252."]
    document = read(outlook.message(TEXTS, binaries={0x1013: body}), MSG)
    assert "Grüße aus Köln. Müller" in document.text
    assert document.warnings == ["Some bytes are not valid UTF-8 and were read as Windows-1252."]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_an_email_saved_in_another_encoding(encoding: str) -> None:
    assert "The pump hums." in read("From: ana@acme.com\nSubject: Pump\n\nThe pump hums.".encode(encoding)).text


@pytest.mark.parametrize("boundary", ["=_x=y", '"wrong"', ""])
def test_a_boundary_that_is_not_the_declared_one(boundary: str) -> None:
    body = b"preamble\r\n--=_x=y\r\nContent-Type: text/plain\r\n\r\nThe pump hums.\r\n--=_x=y--\r\n"
    declared = f"; boundary={boundary}" if boundary else ""
    text = read(raw(f"Content-Type: multipart/mixed{declared}", body)).text
    assert text.endswith("The pump hums.")
    assert "Content-Type" not in text


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("=?utf-8?B?UMO8bXBl?= now", "Pümpe now"),
        ("=?utf-8?Q?P=C3=BC?=\r\n =?utf-8?Q?mpe?=", "Pümpe"),
        ("=?x-none?Q?P=C3=BCmpe?=", "Pümpe"),
        ("=?utf-8?B?not base64!?=", None),
        ("Pümpe", "Pümpe"),
    ],
)
def test_subjects(subject: str, title: str | None) -> None:
    document = read(f"From: ana@acme.com\r\nSubject: {subject}\r\n\r\nText.".encode())
    assert title is None or document.title == title


def test_a_report_of_a_failed_delivery_names_its_reason() -> None:
    body = (
        b"--x\r\nContent-Type: text/plain\r\n\r\nYour message was not delivered.\r\n--x\r\nContent-Type: message/delivery-status\r\n\r\n"
        b"Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: rfc822; ben@acme.com\r\nStatus: 5.1.1\r\n\r\n--x--\r\n"
    )
    text = read(raw('Content-Type: multipart/report; boundary="x"', body)).text
    assert "not delivered" in text
    assert "Status: 5.1.1" in text


def test_a_report_of_a_failed_delivery_keeps_text_among_its_fields() -> None:
    body = (
        b"--x\r\nContent-Type: message/delivery-status\r\n\r\nYour message was not delivered:\r\n\r\n<ben@acme.com> is over quota\r\n\r\n"
        b"Status: 5.2.2\r\nWrite to the postmaster.\r\n\r\n--x--\r\n"
    )
    text = read(raw('Content-Type: multipart/report; boundary="x"', body)).text
    assert (
        "Your message was not delivered:\n\n<ben@acme.com> is over quota\n\nStatus: 5.2.2\nWrite to the postmaster."
        in text
    )


def test_an_outlook_message_within_another() -> None:
    within = outlook.contents({0x0037: "Valve", 0x1000: "The valve leaks."}, top=False)
    data = outlook.message(TEXTS, attachment=("leave.csv", b"City,Days\nRome,30\n"), within=within)
    found = sections(read(data, MSG))
    assert found["The valve leaks."] == ("Pump", "In attachment Valve", "Valve")
    assert found["Rome | 30"] == ("Pump", "In attachment leave.csv")


def stored(rtf: bytes) -> bytes:
    return struct.pack("<IIII", len(rtf) + 12, len(rtf), 0x414C454D, 0) + rtf


COMPRESSED = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)
"""Source: the example of MS-OXRTFCP 4.1.1: `{\\rtf1\\ansi\\ansicpg1252\\pard hello world}`."""


def test_an_outlook_message_that_is_only_rtf() -> None:
    no_body = {number: text for number, text in TEXTS.items() if number != 0x1000}
    rtf = stored(rb"{\rtf1\ansi\ansicpg1252 Gr\'fc\'dfe aus Rom.\par}")
    assert "Grüße aus Rom." in read(outlook.message(no_body, binaries={0x1009: rtf}), MSG).text
    assert "hello world" in read(outlook.message(no_body, binaries={0x1009: COMPRESSED}), MSG).text


def tnef(*attributes: tuple[int, bytes]) -> bytes:
    listed = [struct.pack("<BII", 1, number, len(value)) + value + bytes(2) for number, value in attributes]
    return b"\x78\x9f\x3e\x22\x00\x00" + b"".join(listed)


def test_what_outlook_packs_for_other_programs_is_unpacked() -> None:
    mail = email("See the attachment.")
    text = "The valve leaks.".encode("utf-16-le")
    properties = struct.pack("<IHHII", 1, 0x1F, 0x1000, 1, len(text)) + text
    packed = tnef((0x69003, properties), (0x69002, b""), (0x18010, b"leave.csv\0"), (0x6800F, b"City,Days\nRome,30\n"))
    mail.add_attachment(packed, maintype="application", subtype="ms-tnef", filename="winmail.dat")
    document = read(mail.as_bytes())
    assert "The valve leaks." in document.text
    assert sections(document)["Rome | 30"] == ("Pump", "In attachment leave.csv")
    assert "winmail.dat" not in document.text


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_packed_messages_that_are_cut_are_read_or_named(cut: int) -> None:
    properties = struct.pack("<IHHII", 9, 0x1F, 0x1000, 1, 4) + "It".encode("utf-16-le")
    packed = tnef((0x69003, properties), (0x69002, b""), (0x18010, b"a.csv\0"), (0x6800F, b"x,y\n" * 20))
    mail = email()
    mail.add_attachment(packed[:cut], maintype="application", subtype="ms-tnef", filename="winmail.dat")
    assert "It hums." in read(mail.as_bytes()).text


def test_a_compound_file_that_is_no_message_is_refused() -> None:
    empty = outlook.contents({})
    empty.children = []
    with pytest.raises(SkipDocumentError, match="no properties of one"):
        read(outlook.compound(empty), MSG)


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("us-ascii", b"We don\x92t know.", "We don\u2019t know."),
        ("utf-8", b"Herr M\xfcller schreibt.", "Herr Müller schreibt."),
        ("iso-8859-1", "Herr Müller schreibt.".encode(), "Herr Müller schreibt."),
        ("gb2312", "联通".encode("gb18030"), "联通"),
        ("gb2312", "你好，世界".encode(), "你好，世界"),
        ("iso-2022-jp", "世界。".encode("iso2022_jp"), "世界。"),
        ("utf-16-le", "It hums.".encode("utf-16-le"), "It hums."),
        ("", "世界。".encode("iso2022_jp"), "世界。"),
    ],
)
def test_a_text_in_another_charset_than_the_declared_one(charset: str, body: bytes, text: str) -> None:
    assert decoded(body, charset) == text
    if charset in ("us-ascii", "utf-8"):
        assert "\ufffd" not in decoded(body + b" It hums." * 200, charset)


def test_words_of_a_flowed_text_are_joined_across_lines() -> None:
    body = b"The pump hu \r\nms at night.\r\n\r\n-- \r\nAna\r\n"
    text = read(raw("Content-Type: text/plain; format=flowed; delsp=yes", body)).text
    assert "The pump hums at night.\n\n--\nAna" in text


def test_pages_and_anchors_of_attachments_are_none_of_the_email() -> None:
    file = io.BytesIO()
    sheet = Canvas(file)
    sheet.drawString(60, 780, "The limit is 500 EUR.")
    sheet.save()
    mail = email()
    mail.add_attachment(file.getvalue(), maintype="application", subtype="pdf", filename="limit.pdf")
    mail.add_attachment("<h1 id=top>Leave</h1><p>Thirty days.</p>", subtype="html", filename="leave.html")
    document = read(mail.as_bytes())
    assert "The limit is 500 EUR." in document.text
    assert "Thirty days." in document.text
    assert {(block.page, block.anchor) for block in document.blocks} == {(None, None)}
