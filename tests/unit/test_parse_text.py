"""Text files of old programs: their encodings, the control sequences of terminals, and delimited files."""

from __future__ import annotations

import csv

import pytest

from assets.stages.parse import parse
from assets.stages.parse.decoding import decode
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import mime_type

ENCODED = [
    ("Genève", "cp1252"),
    ("ÄÖÜ", "cp1252"),
    ("Résumé", "cp1252"),
    ("Un café à Genève, 3,50 €", "cp1252"),
    ("Müller & Söhne – Straße 5", "cp1252"),
    ("¿Dónde está el niño? Mañana.", "cp1252"),
    ("ein Preis von 20 £ und 5 µm ± 2 °C", "cp1252"),
    ("© 2024 Acme® ™", "cp1252"),
    ("1;Lefèvre;Hélène\n2;Muñoz;José\n3;Groß;Jürgen\n", "cp1252"),
    ("Dvořák a Škoda", "cp1250"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
    ("Łódź", "cp1250"),
    ("Jürgen Kowalski, Łukasz Wiśniewski", "cp1250"),
    ("Árvíztűrő tükörfúrógép", "cp1250"),
    ("Zażółć gęślą jaźń", "iso8859_2"),
    ("Naukowcy zauważyli", "iso8859_2"),
    ("Příliš žluťoučký kůň", "iso8859_2"),
    ("İstanbul'da güneşli bir gün, ağaç", "cp1254"),
    ("Ģirts Ķīlis un Māra", "cp1257"),
    ("Grüße aus München, schöne Straße", "cp850"),
    ("Grüße aus München, schöne Straße", "mac_roman"),
    ("Привет, мир. Как дела? Сегодня хорошая погода.", "cp1251"),
    ("Привет, мир. Как дела? Сегодня хорошая погода.", "koi8_r"),
    ("Привет, мир. Как дела? Сегодня хорошая погода.", "cp866"),
    ("Привет, мир. Как дела? Сегодня хорошая погода.", "cp855"),
    ("Сегодня хорошая погода, я рад.", "mac_cyrillic"),
    ("Установка Python 3.11 на Windows: запустите python-3.11.exe", "cp1251"),
    ("def price():  # цена без налога", "koi8_r"),
    ("štyria muži vráti v utorok ráno, žiadne ťažkosti, však týždeň, stráž", "iso8859_2"),
    ("Καλημέρα κόσμε, τι κάνεις;", "cp1253"),
    ("שלום עולם, מה שלומך היום?", "cp1255"),
    ("こんにちは、世界。今日はいい天気ですね。", "cp932"),
    ("こんにちは、世界。今日はいい天気ですね。", "euc_jp"),
    ("こんにちは、世界。", "iso2022_jp"),
    ("你好，世界。今天天气很好。", "gb18030"),
    ("안녕하세요 세계 여러분", "cp949"),
    ("Hello world, plain text\nline two", "utf-16-le"),
    ("Hello world, plain text\nline two", "utf-16-be"),
    ("Привет, мир.\nКак дела сегодня?", "utf-16-le"),
    ("你好，世界。\n今天天气很好。", "utf-16-be"),
    ("안녕하세요 세계 여러분", "iso2022_kr"),
]


@pytest.mark.parametrize(("text", "encoding"), ENCODED)
def test_short_text_is_read_in_the_encoding_of_its_language(text: str, encoding: str) -> None:
    decoded, warnings = decode(text.encode(encoding))
    assert decoded == text
    assert warnings or encoding.startswith("iso2022")


@pytest.mark.parametrize(
    ("start", "stray"),
    [
        ("Grüße aus Köln.\n" * 3, "Herr Müller zahlt 5 €.\n"),
        ("Name;Ort\n" + "Jörg;Köln\n" * 3, "Müller;Bonn\n"),
        ("你好，世界。\n", "Café\n"),
        ("The pump hums.\n" * 9000 + "Grüße aus Köln.\n" * 3, "Müller\n"),
    ],
)
def test_a_stray_byte_in_utf8_is_a_letter_of_windows(start: str, stray: str) -> None:
    assert decode(start.encode() + stray.encode("cp1252")) == (
        start + stray,
        ["Some bytes are not valid UTF-8 and were read as Windows-1252."],
    )


def test_a_character_that_the_end_of_the_file_cuts_off_is_left_out() -> None:
    text, warnings = decode("Grüße aus Köln, 5 €".encode()[:-1])
    assert text == "Grüße aus Köln, 5 "
    assert warnings


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "iso2022_kr"])
def test_text_of_several_bytes_a_character_is_text(encoding: str, mark: str) -> None:
    text = "Leave policy\nThirty days a year\U00010300\U0001d11e, see 연차 휴가 규정.\n"
    text = text if encoding != "iso2022_kr" else text.encode(encoding, "ignore").decode(encoding)
    data = (mark + text).encode(encoding, "ignore")
    assert mime_type("leave.txt", data) == "text/plain"
    assert parse(data, "text/plain", title="x").text == text.strip()


@pytest.mark.parametrize(
    "data",
    [
        b"MZ\x90\x00" + bytes(300),
        b"\x01\x00\x00\x00\x41\x00\x00\x00" * 50,
        b"\x00\x01" * 200,
        b"PK\x03\x04\x00\x00\x14" * 40,
    ],
)
def test_binary_data_is_no_text(data: bytes) -> None:
    with pytest.raises(SkipDocumentError):
        mime_type("notes.txt", data)


def test_a_log_has_no_control_sequences() -> None:
    log = "\x1b[32mINFO\x1b[0m started\n\x1b[1;31mERROR\x1b[m E1234 \x1b]0;title\x07failed\n\x1b(BN\x08NAME\n"
    assert parse(log.encode(), "text/plain", title="x").text == "INFO started\nERROR E1234 failed\nNAME"


def test_a_page_is_read_in_the_encoding_that_it_names() -> None:
    page = '<html><head><meta charset="windows-1251"></head><body><p>Да</p></body></html>'
    assert parse(page.encode("cp1251"), "text/html", title="x").text == "Да"
    wrong = page.replace("windows-1251", "utf-8").replace("Да", "Hélène à Genève")
    assert parse(wrong.encode("cp1252"), "text/html", title="x").text == "Hélène à Genève"


def test_the_first_line_of_a_delimited_file_may_name_the_delimiter() -> None:
    document = parse(b"sep=;\nName;Price, net\nHeron;3,50\nStork;4,20\n", "text/csv", title="x")
    assert document.text.split("\n\n") == ["Name | Price, net", "Heron | 3,50\nStork | 4,20"]


def test_xhtml_is_read_as_a_page() -> None:
    data = b'<?xml version="1.0" encoding="UTF-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body>'
    data += b"<h1>Leave</h1><p>Thirty days.</p></body></html>"
    assert parse(data, mime_type("leave.xhtml", data), title="x").text == "Leave\n\nThirty days."


def test_reading_a_small_table_lowers_no_limit_of_the_process() -> None:
    before = csv.field_size_limit()
    assert parse(b"name,age\nAnn,3\n", "text/csv", title="a.csv")
    assert csv.field_size_limit() >= before


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_line_ends_within_a_string_or_a_cell_end_no_record(end: str) -> None:
    for data, kind in (
        (f'{{"a": "It{end}hums."}}', "application/json"),
        (f'{{"a": "It{end}hums."}}\n{{"a": "b"}}', "application/x-ndjson"),
    ):
        document = parse(data.encode(), kind, title="x")
        assert document.warnings == []
        assert document.text.startswith("a: It hums.")
    table = f"Part,Note\nPump,It{end}hums.\nValve,It\vleaks.\n".encode()
    assert parse(table, "text/csv", title="x").text == "Part | Note\n\nPump | It hums.\nValve | It leaks."


def test_a_quotation_mark_that_is_never_closed_swallows_no_rows() -> None:
    rows = "".join(f"{number}\tpart {number}\n" for number in range(100))
    text = parse(f'No\tName\n7\t"Long pump\n{rows}'.encode(), "text/tab-separated-values", title="x").text
    assert '7 | "Long pump' in text
    assert "99 | part 99" in text
    cell = "It hums.\n" * 60
    assert "It hums. It hums." in parse(f'No,Note\n1,"{cell}"\n'.encode(), "text/csv", title="x").text


def test_a_word_is_joined_where_a_soft_hyphen_ends_the_line() -> None:
    assert parse("soft\u00ad\r\nhyphen".encode(), "text/plain", title="x").text == "softhyphen"


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown"])
def test_plus_signs_of_a_list_stay_apart_from_its_minus_signs(kind: str) -> None:
    for text in ("+ fast\n+ cheap\n- slow", "+ 500 EUR Zuschuss\n- 200 EUR Abzug"):
        assert parse(text.encode(), kind, title="x").text.replace("\n\n", "\n") == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("2024-01-01 10:00;21,5;40,2\n2024-01-01 11:00;22,5;41,2\n",
         "2024-01-01 10:00 | 21,5 | 40,2\n2024-01-01 11:00 | 22,5 | 41,2"),
        ("12,5;13,5\n1,5;2,5\n", "12,5 | 13,5\n1,5 | 2,5"),
        ("Artikel;Preis, netto\nHeron;3,50\nStork;4,20\n", "Artikel | Preis, netto\nHeron | 3,50\nStork | 4,20"),
        ("Name\tOrt, Land, Region\nJan\tBonn, DE, EU\n", "Name | Ort, Land, Region\nJan | Bonn, DE, EU"),
        ("name,tags\nAda,a;b\nBen,c;d\n", "name | tags\nAda | a;b\nBen | c;d"),
    ],
)  # fmt: skip
def test_commas_within_cells_do_not_part_them(data: str, text: str) -> None:
    assert parse(data.encode(), "text/csv", title="x").text.replace("\n\n", "\n") == text


ACCOUNT = (
    "Kontonummer:;DE12 3456\nKontostand:;{}\n{}Buchungstag;Empfänger;Zweck;Betrag\n02.01.2024;Stadtwerke;Strom;-80,50\n"
)


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        ("Region,2019,2020,2021\nNord,5,6,7\n", ["Region | 2019 | 2020 | 2021"]),
        ("Region,2024-01-01,2024-02-01\nNord,5,6\n", ["Region | 2024-01-01 | 2024-02-01"]),
        ("2019,2020\n2021,2022\n", []),
        ("2024-01-01,Ada\n2024-01-02,Ben\n", []),
        ("Bericht 2024\n\nArtikel;Preis\nHeron;3,50\n", ["Artikel | Preis"]),
        (ACCOUNT.format("1.234,56 EUR", ""), ["Buchungstag | Empfänger | Zweck | Betrag"]),
        (ACCOUNT.format("1.234,56", ""), ["Buchungstag | Empfänger | Zweck | Betrag"]),
        (ACCOUNT.format("1.234,56", "\n"), ["Buchungstag | Empfänger | Zweck | Betrag"]),
        ("Name:;Ort:\nAda;Rom\n", ["Name: | Ort:"]),
        ("time,message\n10:00,started\n10:01,done, ok, fine\n", ["time | message"]),
        ("Host: a,up\nHost: b,down\n", ["Host: a | up"]),
    ],
)
def test_the_header_of_a_delimited_file(data: str, headers: list[str]) -> None:
    document = parse(data.encode(), "text/csv", title="x")
    assert [document.text[block.start : block.end] for block in document.blocks if block.row_start == 0] == headers
    assert document.text.count("Betrag") == data.count("Betrag")


@pytest.mark.parametrize(
    "text",
    ["45 € pro Stück", "Preis: 45 €; Größe: 12\nGebühr: 7 €", "Le prix est de 5 € pour l'œuvre complète, très chère"],
)
def test_the_euro_of_iso_8859_15_is_read(text: str) -> None:
    assert parse(text.encode("iso8859_15"), "text/plain", title="x").text == text
