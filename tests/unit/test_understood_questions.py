"""Filters that questions state in words: what is understood, and what must not be."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.known_items import FIRST, LAST, QUESTIONS
from orchestration.demo import sample
from resources.core.domain import SourceName
from resources.core.filetypes import DOCX, MSG, ODP, PPTX, SHEETS, XLS, XLSB, XLSX
from resources.sources import specs
from resources.sources.spec import SourceSpec
from serving.search.filters import DateRange, Filters, narrowing
from serving.search.understanding.dates import dates
from serving.search.understanding.filters import Reading, reading
from serving.search.understanding.grammar import Grammar
from serving.search.understanding.lookup import WORD, NameIndex
from serving.search.understanding.operators import Operators
from serving.search.understanding.people import may_hold_names, words_of
from serving.search.understanding.phrases import KINDS, Names, Phrase
from sql.serving_rows import ReadableName

TODAY = date(2026, 11, 23)
"""A Monday."""
QUESTION_SET = Path(__file__).parents[1] / "fixtures" / "understood_questions.json"
COLLECTIONS = Path(__file__).parents[3] / "shared" / "data"
LEAST = 0.95
AUTHORS = ["Marta Kolb", "Tom Brandt", "tom.brandt@acme.example", "helen.marsh@acme.example", "Priya Venkat"]
TYPES = {
    "pdf": ["application/pdf"],
    "sheets": sorted(SHEETS),
    "csv": ["text/csv"],
    "docx": [DOCX],
    "slides": [PPTX, ODP, "text/plain"],
    "images": ["image/png", "image/jpeg"],
}


def names(authors: list[str]) -> Names:
    return Names({name: words_of(name) for name in authors}, frozenset({"support", "general"}))


GRAMMAR = Grammar(specs())


def understood(question: str, known: Names) -> dict[str, Any]:
    """Return the values of each kind of filter."""
    found = GRAMMAR.phrases(question, TODAY, KINDS, known if may_hold_names(question) else Names())
    values: dict[str, Any] = {one.kind: sorted(filter(None, one.values)) for one in found if one.kind != "date"}
    for one in found:
        if one.kind == "date":
            values["date"] = {"start": one.values[0], "end": one.values[1], "field": one.field}
    return values


def expected(values: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {kind: value if kind == "date" else sorted(value) for kind, value in values.items()}
    if "type" in wanted:
        wanted["type"] = sorted(mime for name in wanted["type"] for mime in TYPES[name])
    return wanted


def read(question: str, plain: Filters | None = None) -> Reading:
    return reading(question, GRAMMAR.phrases(question, TODAY, KINDS, names(AUTHORS)), narrowing(plain))


def test_the_question_set_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    questions = json.loads(QUESTION_SET.read_text())
    wrong = [
        (one["question"], found)
        for one in questions
        if (found := understood(one["question"], names(AUTHORS))) != expected(one["understood"])
    ]
    with capsys.disabled():
        sys.stdout.write(f"\nunderstood filters: {len(questions) - len(wrong)} of {len(questions)} questions right\n")
    assert len(questions) >= 60
    assert len(wrong) <= len(questions) * (1 - LEAST), wrong


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("since 2026/03/12", date(2026, 3, 12), None),
        ("since 2024.05.01", date(2024, 5, 1), None),
        ("before 2026-03", None, date(2026, 2, 28)),
        ("in 2024/03", date(2024, 3, 1), date(2024, 3, 31)),
        ("between 2026/01 and 2026/03", date(2026, 1, 1), date(2026, 3, 31)),
        ("in 2024.", date(2024, 1, 1), date(2024, 12, 31)),
    ],
)
def test_dates_in_figures(text: str, first: date | None, last: date | None) -> None:
    (found,) = dates(f"reports {text}", TODAY)
    assert (found.first, found.last, found.end) == (first, last, len(f"reports {text}".rstrip(".")))


@pytest.mark.parametrize(
    "text", ["in 2024/25", "since 2024.5.1", "in 2024/13", "since 2026/03/12/7", "in 2026-03/12", "in 2024.5"]
)
def test_figures_that_are_no_dates_state_nothing(text: str) -> None:
    assert list(dates(f"reports {text}", TODAY)) == []


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("spreadsheet", sorted(SHEETS)),
        ("ods", ["application/vnd.oasis.opendocument.spreadsheet"]),
        ("slides", [PPTX, ODP, "text/plain"]),
        ("excel", [XLSX, XLS, XLSB]),
        ("word", [DOCX]),
        ("email", ["message/rfc822", MSG]),
    ],
)
def test_operators_name_every_format_of_a_type(name: str, types: list[str]) -> None:
    (found,) = Operators(specs()).phrases(f"prices type:{name}", KINDS, Names())
    assert list(found.values) == types


@pytest.mark.parametrize("name", ["time", "cranfield", "cacm"])
def test_queries_and_titles_of_test_collections_state_no_filter(name: str) -> None:
    folder = COLLECTIONS / name
    if not folder.is_dir():
        pytest.skip(f"the test collection {name} is not on this machine")
    queries = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text().splitlines()]
    titles = [json.loads(line).get("title") or "" for line in (folder / "corpus.jsonl").read_text().splitlines()]
    people = names([*AUTHORS, "Gerard Salton", "Udo Pooch", "Prieve", "President Kennedy", "Nikita Khrushchev"])
    texts = [" ".join(text.split()) for text in [*queries, *titles]]
    assert [(text, found) for text in texts if (found := understood(text, people))] == []


def test_questions_of_the_sample_company_state_no_filter() -> None:
    people = names([person["name"] for person in json.loads((sample.FOLDER / "people.json").read_text())])
    questions = [*sample.questions(), *sample.questions(more=True), *sample.questions_of_sources()]
    texts = [one.question for one in questions]
    assert [(text, found) for text in texts if (found := understood(text, people))] == []


def test_searches_for_known_items_state_no_filter() -> None:
    full = [f"{first} {last}" for first in FIRST for last in LAST]
    known = [
        *full,
        "PKZ-0821",
        "E4411_TIMEOUT",
        "TR-40S/118",
        "2.13.7",
        "ops@acme.example",
        "INV-2026-00412",
        "etc/app.conf",
    ]
    texts = [form.format(item) for item in known for form in ("{}", *QUESTIONS)]
    assert [(text, found) for text in texts if (found := understood(text, names(full)))] == []


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("today", "2026-11-23", "2026-11-23"),
        ("last week", "2026-11-16", "2026-11-22"),
        ("this week", "2026-11-23", "2026-11-29"),
        ("last quarter", "2026-07-01", "2026-09-30"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("in the past two weeks", "2026-11-09", "2026-11-23"),
        ("over the past quarter", "2026-08-23", "2026-11-23"),
        ("in the last two quarters", "2026-05-23", "2026-11-23"),
        ("last 7 days", "2026-11-16", "2026-11-23"),
        ("three months ago", "2026-08-23", "2026-08-23"),
        ("last Monday", "2026-11-16", "2026-11-16"),
        ("since Friday", "2026-11-20", None),
        ("since march", "2026-03-01", None),
        ("since December", "2025-12-01", None),
        ("since 3 March 2026", "2026-03-03", None),
        ("after March 3rd, 2026", "2026-03-04", None),
        ("before 2026", None, "2025-12-31"),
        ("until June 2026", None, "2026-06-30"),
        ("between January and March 2026", "2026-01-01", "2026-03-31"),
        ("between November and February", "2025-11-01", "2026-02-28"),
        ("between 1 and 15 March 2026", "2026-03-01", "2026-03-15"),
        ("from June to August 2025", "2025-06-01", "2025-08-31"),
        ("in Q1 2026", "2026-01-01", "2026-03-31"),
        ("on 2026-02-28", "2026-02-28", "2026-02-28"),
    ],
)
def test_dates(text: str, first: str | None, last: str | None) -> None:
    found = [(one.first and one.first.isoformat(), one.last and one.last.isoformat()) for one in dates(text, TODAY)]
    assert found == [(first, last)]


@pytest.mark.parametrize(
    ("today", "text", "first", "last"),
    [
        ("2026-11-30", "between 30 November and 15 February", "2025-11-30", "2026-02-15"),
        ("2024-03-01", "between 29 February and 15 January", "2023-02-28", "2024-01-15"),
        ("2026-11-30", "2 months ago", "2026-09-30", "2026-09-30"),
        ("2026-03-31", "a month ago", "2026-02-28", "2026-02-28"),
        ("2024-02-29", "a year ago", "2023-02-28", "2023-02-28"),
        ("2026-02-10", "in Q4", "2025-10-01", "2025-12-31"),
        ("2026-02-10", "since Q1", "2026-01-01", None),
    ],
)
def test_dates_of_other_days(today: str, text: str, first: str, last: str | None) -> None:
    found = list(dates(text, date.fromisoformat(today)))
    assert [(one.first, one.last) for one in found] == [
        (date.fromisoformat(first), date.fromisoformat(last) if last else None)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "between 10 and 2026-03-05",
        "between 10 and 2020",
        "May we march on?",
        "since 2027",
        "on 31 February 2026",
        "last month's figures",
        "since 0000-99-99",
    ],
)
def test_no_dates(text: str) -> None:
    assert list(dates(text, TODAY)) == []


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("store the vaccine at -20 degrees", []),
        ("between -5°C and -2.5", []),
        ('pumps -draft -"2024"', ["2024", "draft"]),
    ],
)
def test_a_negative_number_excludes_nothing(text: str, left_out: list[str]) -> None:
    found = Operators(specs()).phrases(text, KINDS, Names())
    assert sorted({value for one in found for value in one.values if value}) == left_out


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("Wer ist für Gebäudereinigung und -wartung zuständig?", []),
        ("Gebäudereinigung bzw. -wartung", []),
        ("Haupt- und -nebenkosten", []),
        ("Haupt- -nebenkosten", []),
        ("java -jar fails", []),
        ("What is -Xmx for?", []),
        ("docker run -it alpine", []),
        ("-jar is what?", []),
        ("-draft pumps", ["draft"]),
        ("in:files -draft pumps", ["draft"]),
        ("pumps „wet -draft“", []),
        ('24" or 27" monitors in:files -old', ["old"]),
        ("pumps «wet -draft»", []),
        ('pumps -draft in:files -old "two words"', ["draft", "old"]),
        ('pumps -"first draft" of Oslo', ["first draft"]),
    ],
)
def test_only_a_word_at_the_beginning_or_the_end_is_excluded(text: str, left_out: list[str]) -> None:
    found = Operators(specs()).phrases(text, KINDS, Names())
    assert {value for one in found if one.kind == "without" for value in one.values} == set(left_out)


def test_understood_words_are_not_searched_for() -> None:
    found = read("What did Marta write in #support last week about the pumps?")
    assert found.text == "What about the pumps?"
    assert [(one.kind, one.text) for one in found.understood] == [
        ("author", "did Marta write"),
        ("channel", "in #support"),
        ("date", "last week"),
    ]
    assert all(found.asked[one.start : one.end] == one.text for one in found.understood)
    assert read("What did Marta write in #support last week?").text == "What did Marta write in #support last week?"


def test_understood_filters_are_sent_in_the_form_of_filters() -> None:
    found = read("Slack messages by Marta since March")
    for one in found.understood:
        assert narrowing(narrowed(one.filters)) != narrowing(None)
    assert found.narrowing == narrowing(
        Filters(source_types=["slack"], authors=["Marta Kolb"], date_range=DateRange("2026-03-01"))
    )


def narrowed(filters: dict[str, Any]) -> Filters:
    import msgspec

    return msgspec.convert(filters, Filters)


def test_filters_of_the_request_hold_as_well() -> None:
    plain = Filters(source_types=["files", "slack"], document_ids=[], date_range=DateRange("2026-05-01", "2026-12-01"))
    found = read("Slack messages about pumps since March", plain).narrowing
    assert found.source_types == ("slack",)
    assert found.since == datetime(2026, 5, 1, tzinfo=UTC)


def test_what_contradicts_the_request_is_not_applied() -> None:
    plain = Filters(source_types=["files"], date_range=DateRange("2026-05-01", field="created_at"))
    found = read("Slack messages about pumps since March", plain)
    assert found.narrowing == narrowing(plain)
    assert [one.applied for one in found.understood] == [False, False]
    assert found.text == found.asked


def test_a_plugged_in_source_is_understood_by_its_label_and_aliases() -> None:
    spec = SourceSpec(
        name=SourceName("acme_wiki"),
        label="Acme Wiki",
        open=lambda *_: None,
        help="",
        aliases=("acmepedia",),  # type: ignore[arg-type,return-value]
    )
    grammar = Grammar([*specs(), spec])
    questions = ["pumps from Acme Wiki", "Acme Wiki pages about pumps", "in acmepedia: how are pumps tested?"]
    for question in questions:
        assert [one.values for one in grammar.phrases(question, TODAY, KINDS, Names())] == [("acme_wiki",)]
    assert understood("pumps from Acme Wiki", names(AUTHORS)) == {}


def test_push_is_a_word_and_not_a_source() -> None:
    for question in ("push messages about tea", "messages from push", "Which push notifications do we send?"):
        assert "source" not in understood(question, Names()), question


@pytest.mark.parametrize(
    "question",
    [
        "what did Marta Gómez write about rent",
        "what did marta jones say",
        "what did marta kelly say",
        "what did Marta not write",
        "what has Marta Kolb's team written",
        "documents by Marta McDonald",
        "documents by Marta Ünal",
        "documents by Marta O'Neil",
        "documents by Marta DeVito",
        "documents by Marta Kolb-Meier",
        "documents by Marta van Dijk",
        "documents by Marta de la Cruz",
        "documents by Marta's team",
        "documents by Marta, Anna or José",
        "documents by Marta/Anna",
        "documents by Marta J. Meier",
        "documents by Marta Kolb, Tom Brandt",
        "documents by Marta Kolb/Tom Brandt",
        "documents by Marta Kolb, Anna Meier and Tom Brandt",
        "documents written by marta jones about rent",
        "documents written by marta, anna or josé",
        "documents by Владимир Сидоров",
        "what did Владимир Сидоров write",
        "Anna Kolb wrote about rent",
        "Find Anna Kolb's notes",
        "Anna/Marta wrote about rent",
    ],
)
def test_a_part_of_another_name_is_no_author(question: str) -> None:
    assert "author" not in understood(question, names([*AUTHORS, "Владимир Петров"]))


@pytest.mark.parametrize(
    "question",
    [
        "what did Marta Kolb write about rent",
        "documents by Marta, about rent",
        "documents by Marta Kolb in Slack",
        "documents written by marta, about rent",
        "By Marta: anything on rent",
        "documents by Marta, on rent and leases",
        "What Marta wrote about rent",
        "Documents Marta shared",
        "Find Marta's notes",
        "The slides Kolb shared",
        "Summarise Marta's notes",
        "Compare Marta Kolb's slides with the draft",
        "On rent, what did Marta really say",
        "Yesterday Marta wrote about rent",
    ],
)
def test_a_whole_name_is_an_author(question: str) -> None:
    assert understood(question, names(AUTHORS))["author"] == ["Marta Kolb"]


@pytest.mark.parametrize(
    ("question", "also"),
    [
        ("Which documents by Marta do we have about pricing?", {}),
        ("documents by Marta Kolb Q3 2025", {}),
        ("documents by Marta Kolb SSO setup", {}),
        ("documents by Marta Kolb, OKR 2025", {}),
        ("documents by Marta Kolb, Slack only", {}),
        ("documents by Marta Kolb - Budget", {}),
        ("documents by Marta - Budget", {}),
        ("documents by Marta PDF", {"type": ["pdf"]}),
        ("Download Marta's slides", {}),
        ("Review Marta's notes", {}),
        ("Need Marta's notes", {}),
        ("Using Marta's notes, explain pricing", {}),
        ("Where’s Marta's report", {}),
        ("Where’s Kolb's report", {}),
        ("Also Marta's notes", {}),
        ("Dr. Marta wrote", {}),
        ("Dr. Kolb wrote about pricing", {}),
        ("Links Marta posted", {}),
        ("In Slack Marta wrote about pricing", {"source": ["slack"]}),
        (
            "In March Marta wrote about pricing",
            {"date": {"start": "2026-03-01", "end": "2026-03-31", "field": "modified_at"}},
        ),
        ("files uploaded by marta recently", {}),
        ("files uploaded by marta to drive", {}),
        ("files shared by marta via slack", {}),
        ("files shared by marta at the offsite", {}),
        ("files shared by marta kolb q3 2025", {}),
    ],
)
def test_words_beside_a_name_are_no_part_of_it(question: str, also: dict[str, Any]) -> None:
    assert understood(question, names(AUTHORS)) == {"author": ["Marta Kolb"]} | expected(also)


@pytest.mark.parametrize(
    "question",
    [
        "documents not written by Marta",
        "notes by anyone but Marta",
        "reports that were never posted by Marta",
        "notes about rent, not in Slack",
        "documents that aren't from Drive",
        "everything except from Drive about budget",
        "anything other than in Slack",
        "anything but PDFs",
        "all but PDFs",
        "all files but PDFs",
        "everything in Drive but PDFs",
        "rent, but not only pdfs",
        "files without pdf",
        "do not show PDFs about rent",
        "is there no spreadsheet about rent",
        "anything except the slides",
        "exclude PDFs about rent",
        "posts not in #general",
        "posts that are neither in Slack nor in Drive",
        "documents not updated last month",
        "emails not sent yesterday",
        "documents that nobody edited in the last year",
        "files that haven't been updated since March",
        "files that were not opened since March",
        "documents not from last week",
    ],
)
def test_what_is_negated_is_not_understood(question: str) -> None:
    assert understood(question, names(AUTHORS)) == {}


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("notes about onboarding but only from Slack", {"source": ["slack"]}),
        ("pricing rules but in pdf format", {"type": ["pdf"]}),
        ("pricing but only pdfs", {"type": ["pdf"]}),
        ("nothing but pdfs", {"type": ["pdf"]}),
        ("annual report pdf, page 12", {"type": ["pdf"]}),
        ("budget spreadsheet, sheet 2", {"type": ["sheets"]}),
        ("pricing in the pdf, see page 12", {"type": ["pdf"]}),
    ],
)
def test_what_narrows_is_understood(question: str, values: dict[str, Any]) -> None:
    assert understood(question, names(AUTHORS)) == expected(values)


def test_vowel_signs_belong_to_words() -> None:
    known = names(["राहुल शर्मा", "Marta Kolb"])._replace(channels=frozenset({"बिक्री"}))
    assert [one.values for one in Operators(specs()).phrases("from:शर्मा", KINDS, known)] == [("राहुल शर्मा",)]
    assert [one.values for one in Operators(specs()).phrases("बजट -मसौदा", KINDS, known)] == [("मसौदा",)]
    for question in (
        "what did शर्मा write about rent",
        "notes written by राहुल शर्मा",
        "शर्मा's notes",
        "शर्मा wrote about rent",
    ):
        assert understood(question, known) == {"author": ["राहुल शर्मा"]}, question
    assert understood("posts in #बिक्री", known) == {"channel": ["बिक्री"]}
    row = ReadableName("author", "राहुल शर्मा", "राहुल शर्मा", "doc")
    assert NameIndex([row]).find(["शर्मा"]) == [row]
    assert [one.group() for one in WORD.finditer("राहुल शर्मा_2")] == ["राहुल", "शर्मा", "2"]


@pytest.mark.parametrize(
    ("question", "author"),
    [
        ("from:O'Brien", "Kate O'Brien"),
        ("from:O’Brien", "Kate O'Brien"),
        ("from:D'Angelo", "Gino D’Angelo"),
        ('from:"J. Smith"', "Smith, J."),
        ('from:"J Smith"', "J. Smith"),
        ("from:o.brien@acme.example", "o.brien@acme.example"),
        ("from:王", "王"),
    ],
)
def test_a_name_may_have_single_letters(question: str, author: str) -> None:
    known = names([author, "Marta Kolb"])
    assert [one.values for one in Operators(specs()).phrases(question, KINDS, known)] == [(author,)]


def test_a_single_letter_is_no_name() -> None:
    known = names(["Kate O'Brien", "J. Smith", "Marta S."])
    assert [one.values for one in Operators(specs()).phrases("from:J", KINDS, known)] == [("J",)]
    assert understood("documents by Marta's team", known) == {}


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("posts in #general or #support", {"channel": ["general", "support"]}),
        ("posts in #general, #support and #general", {"channel": ["general", "support"]}),
        ("posts in #general or in #support", {"channel": ["general", "support"]}),
        ("posts in #general or #executive", {}),
        ("posts in #executive or #general", {}),
        ("posts in the support channel or #general", {}),
        ("PDFs and spreadsheets about budget", {"type": ["pdf", "sheets"]}),
        ("PDFs, slides or Word documents about budget", {"type": ["pdf", "slides", "docx"]}),
        ("PDFs and notes about budget", {}),
        ("notes and PDFs about budget", {}),
        ("the rent in a PDF or a spreadsheet", {"type": ["pdf", "sheets"]}),
        ("anything in Drive, Slack and uploads", {"source": ["google_drive", "slack", "upload"]}),
        ("everything in Slack or in Drive about rent", {"source": ["slack", "google_drive"]}),
        ("from Slack & Drive: rent", {"source": ["slack", "google_drive"]}),
        ("Slack messages and Drive documents about rent", {}),
        ("notes by Marta, Anna or José", {}),
        ("notes by Marta & Tom", {}),
        ("reports from 2023 or 2024", {}),
        ("reports from March or April 2024", {}),
        ("reports from March or May", {}),
        ("reports from 2023 and 2024 about rent", {}),
        ("reports from 2022, 2023 and 2024", {}),
        ("documents edited two or three weeks ago", {}),
        ("documents edited 2-3 weeks ago", {}),
        ("documents edited yesterday or today", {}),
        ("posts in Slack or by Marta", {}),
        ("posts about rent or by Marta", {}),
        ("posts from last week or so", {}),
        ("Slack messages and notes about rent", {}),
        ("PDFs and Slack messages about rent", {}),
        ("reports, from Drive", {"source": ["google_drive"]}),
    ],
)
def test_of_several_values_all_or_none_are_understood(question: str, values: dict[str, Any]) -> None:
    assert understood(question, names(AUTHORS)) == expected(values)


@pytest.mark.parametrize(
    ("today", "text", "first", "last"),
    [
        ("2026-11-23", "since the last quarter", "2026-07-01", None),
        ("2026-11-23", "before the last week", None, "2026-11-15"),
        ("2026-11-23", "until the last week", None, "2026-11-22"),
        ("2026-11-23", "since the last 2 weeks", "2026-11-09", None),
        ("2026-11-23", "before the last 2 weeks", None, "2026-11-08"),
        ("2026-11-23", "since the 3rd of March", "2026-03-03", None),
        ("2026-01-07", "from Monday to Friday", "2025-12-29", "2026-01-02"),
        ("2026-01-10", "from Monday to Friday", "2026-01-05", "2026-01-09"),
        ("2026-01-10", "from 1 to 15 January", "2026-01-01", "2026-01-15"),
        ("2026-02-10", "between January and March", "2026-01-01", "2026-03-31"),
        ("2026-02-10", "between March and May", "2025-03-01", "2025-05-31"),
        ("2026-01-04", "between November and February", "2025-11-01", "2026-02-28"),
        ("2026-01-04", "from Q3 to Q1", "2025-07-01", "2026-03-31"),
        ("2026-11-23", "from Q1 to Q3 2024", "2024-01-01", "2024-09-30"),
        ("2026-11-23", "in the last few days", "2026-11-20", "2026-11-23"),
        ("2026-11-23", "from the 3rd of March to the 5th of March", "2026-03-03", "2026-03-05"),
        ("2026-11-23", "between the 1st and the 15th of March", "2026-03-01", "2026-03-15"),
    ],
)
def test_spans_of_other_days(today: str, text: str, first: str | None, last: str | None) -> None:
    found = [
        (one.first and one.first.isoformat(), one.last and one.last.isoformat())
        for one in dates(text, date.fromisoformat(today))
    ]
    assert found == [(first, last)]


@pytest.mark.parametrize(
    "text",
    [
        "after the last 2 weeks",
        "until the last 2 weeks",
        "before the May meeting",
        "in the last quarter of 2024",
        "more than 3 months ago",
        "less than a year ago",
        "over 3 months ago",
        "at least 3 months ago",
        "about 3 months ago",
        "older than 3 weeks ago",
        "earlier than yesterday",
        "between yesterday and 3 days ago",
        "a few days ago",
        "since a few days ago",
        "a couple of weeks ago",
        "from March to now",
        "from 3 March - 5 March",
        "from March - may 2026",
        "from March 3 to 5",
        "from a couple of weeks ago",
    ],
)
def test_vague_spans_are_no_dates(text: str) -> None:
    assert list(dates(text, TODAY)) == []


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("what did Marta write about last week?", "2026-11-16", "2026-11-22"),
        ("what has Marta posted about this week", "2026-11-23", "2026-11-29"),
        ("what did people in #general talk about last week", "2026-11-16", "2026-11-22"),
        ("what was posted in Slack last week and may be wrong", "2026-11-16", "2026-11-22"),
        ("documents from last week, may include drafts", "2026-11-16", "2026-11-22"),
        ("notes from Monday - 12 items", "2026-11-23", "2026-11-23"),
        ("documents updated last week - 3 pages", "2026-11-16", "2026-11-22"),
        ("documents sent last week to 5 customers", "2026-11-16", "2026-11-22"),
        ("documents from last week, 2025 budget", "2026-11-16", "2026-11-22"),
        ("documents since a couple of weeks ago", "2026-11-09", None),
        ("documents before a couple of years ago", None, "2024-11-22"),
    ],
)
def test_words_beside_a_date_do_not_change_it(question: str, first: str | None, last: str | None) -> None:
    date = {"start": first, "end": last, "field": "modified_at"}
    assert understood(question, names(AUTHORS)).get("date") == date


@pytest.mark.parametrize(
    ("question", "values"),
    [
        (
            "reports from June about rent",
            {"date": {"start": "2026-06-01", "end": "2026-06-30", "field": "modified_at"}},
        ),
        ("documents from June 2025", {"date": {"start": "2025-06-01", "end": "2025-06-30", "field": "modified_at"}}),
        ("messages from Slack", {"source": ["slack"]}),
        ("documents by June", {"author": ["June Smith"]}),
    ],
)
def test_words_state_one_filter(question: str, values: dict[str, Any]) -> None:
    known = names(["June Smith", "Slack Bot"])
    assert understood(question, known) == expected(values)
    assert [one.kind for one in GRAMMAR.phrases(question, TODAY, ["author"], known)] == (
        ["author"] if "author" in values else []
    )


def test_what_is_applied_is_not_searched_for() -> None:
    phrases = [Phrase("author", 8, 17, ("June Smith",)), Phrase("date", 8, 17, ("2026-06-01", "2026-06-30"))]
    found = reading("reports from June about rent", phrases, narrowing(None))
    assert [one.applied for one in found.understood] == [True, False]
    assert found.narrowing == narrowing(Filters(authors=["June Smith"]))


@pytest.mark.parametrize(
    ("question", "understood_as"),
    [
        ("documents from 1955", None),
        ("documents written before 1970", None),
        ("documents since 1960", None),
        ("documents from 1900 to 1950", None),
        ("documents from 1900 to 2000", {"end": "2000-12-31", "field": "modified_at"}),
        ("documents from the last 100 years", {"end": "2026-11-23", "field": "modified_at"}),
        ("documents since 1970", {"start": "1970-01-01", "field": "modified_at"}),
    ],
)
def test_no_document_is_older_than_1970(question: str, understood_as: dict[str, Any] | None) -> None:
    found = [one.filters["date_range"] for one in read(question).understood]
    assert [{key: value for key, value in one.items() if value} for one in found] == (
        [understood_as] if understood_as else []
    )
