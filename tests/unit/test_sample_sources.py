"""What the sample company has in Drive and Slack is what its questions and people say: checked on the models, without a server."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from assets.stages.chunk import chunk
from assets.stages.parse import parse, word_count
from assets.stages.profiles import resolve
from orchestration.demo import sample, sample_sources
from resources.core.domain import Chunk, ParsedDocument, SourceName
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import PPTX, XLSX, mime_type
from resources.core.permissions import principals_of
from resources.embedding import tokenizer
from resources.settings import Settings
from simulators.drive import SHORTCUT, SimulatedDrive
from simulators.drive.exports import export
from simulators.drive.tree import DOCUMENT, PRESENTATION, SPREADSHEET
from simulators.slack import Workspace

FILM = "1LK-all-flume-film"
EXPORTS = {DOCUMENT: "text/markdown", SPREADSHEET: XLSX, PRESENTATION: PPTX}
QUESTIONS = sample.questions_of_sources()
ON_DRIVE = [question for question in QUESTIONS if question.source is SourceName.GOOGLE_DRIVE]
IN_SLACK = [question for question in QUESTIONS if question.source is SourceName.SLACK]


@cache
def drive() -> SimulatedDrive:
    return sample_sources.make_drive()


@cache
def workspace() -> Workspace:
    return sample_sources.make_workspace()


@cache
def documents() -> list[str]:
    """Ids of what is indexed of Drive."""
    found = [item for item in drive().items.values() if not item.is_folder and item.mime_type != SHORTCUT]
    return [item.id for item in found if item.id != FILM]


@cache
def conversations() -> dict[str, list[str]]:
    """Texts by source id: of a thread, or of what was said outside of threads with less than half an hour between."""
    gap = float(Settings.model_fields["slack_window_minutes"].default) * 60
    found: dict[str, list[str]] = {}
    for channel in workspace().channels.values():
        messages = workspace().messages(channel.id)
        for message in (message for message in messages if message.thread_ts is not None):
            found.setdefault(f"{workspace().team}/{channel.id}/{message.thread_ts}", []).append(message.text)
        alone = [message for message in messages if message.thread_ts is None]
        begins = {alone[0].ts} if alone else set[str]()
        begins |= {later.ts for one, later in pairwise(alone) if float(later.ts) - float(one.ts) > gap}
        name = ""
        for message in alone:
            name = f"{workspace().team}/{channel.id}/{message.ts}" if message.ts in begins else name
            found.setdefault(name, []).append(message.text)
    return found


def slack_principals(person: sample.SampleReader) -> set[str]:
    """What the synced directory adds to a person's own principals."""
    members = {user.email for user in workspace().users.values() if user.reads and not user.guest}
    return {f"slack:{workspace().team}"} if person.email in members else set()


def readers(granted: set[str]) -> set[str]:
    return {
        person.id for person in sample.people().values()
        if granted & (set(principals_of(person.email, person.groups)) | slack_principals(person))
    }  # fmt: skip


@cache
def parsed(file_id: str) -> ParsedDocument:
    item = drive().items[file_id]
    kind = EXPORTS.get(item.mime_type)
    data = export(item, kind) if kind else item.content
    return parse(data, kind or mime_type(item.name, data), title=item.name, description=None)


@cache
def passages(file_id: str) -> list[Chunk]:
    return chunk(parsed(file_id), tokenizer(), resolve("auto", 256))


def collapsed(text: str) -> str:
    return " ".join(text.split())


def test_drive_has_every_kind_and_the_special_cases() -> None:
    items = list(drive().items.values())
    kinds = {item.mime_type.rpartition(".")[2] for item in items}
    assert {"document", "spreadsheet", "presentation", "folder", "shortcut", "application/pdf", "text/csv"} <= kinds
    assert len(documents()) >= 20
    assert [one.name for one in drive().drives.values()] == ["Engineering"]
    assert any(item.limited for item in items)
    assert {who.partition(":")[0] for item in items for who in item.grants} == {"user", "group", "domain", "anyone"}
    sheets = drive().items["1LK-eng-heron5-parts"].sheets
    assert sheets is not None
    assert len(sheets) == 2
    with pytest.raises(SkipDocumentError, match="not supported"):
        mime_type(drive().items[FILM].name, drive().items[FILM].content)


def test_a_shortcut_leads_out_of_everything_that_is_indexed_as_a_root() -> None:
    outside = [item for item in drive().items.values() if item.parent is None and item.owner != drive().account]
    targets = {item.target for item in drive().items.values() if item.mime_type == SHORTCUT}
    assert {item.id for item in outside} - {*drive().drives} == {"1LK-all-first-aid"} <= targets


def test_slack_has_every_kind_of_channel_member_and_message() -> None:
    channels = {channel.name: channel for channel in workspace().channels.values()}
    assert set(channels) == {"general", "engineering", "support-escalations", "leadership", "office-move"}
    assert [name for name, channel in channels.items() if channel.private] == ["leadership"]
    assert [name for name, channel in channels.items() if channel.archived] == ["office-move"]
    users = workspace().users.values()
    assert [user.name for user in users if user.guest] == ["Noor Castellan"]
    assert [user.name for user in users if user.external] == ["Rey Salcedo"]
    everything = [message for channel in channels.values() for message in channel.timeline]
    assert sum(message.written for message in everything) >= 60
    texts = [message.text for message in everything]
    for part in ("```", "<@U", "<https://", ":tada:", "<!channel>"):
        assert any(part in text for text in texts), part
    assert sum(message.edited is not None for message in everything) == 1
    assert sum(bool(message.files) for message in everything) == 1
    written = [message for channel in sample_sources.slack_manifest().channels for message in channel.messages]
    gone = [message.text for message in written if message.deleted]
    assert len(gone) == 1
    assert gone[0] not in texts


def test_every_start_makes_the_same() -> None:
    again = sample_sources.make_drive()
    assert set(again.items) == set(drive().items)
    for item_id, item in drive().items.items():
        other = again.items[item_id]
        facts = (item.name, item.md5, item.created, item.modified, set(item.grants))
        assert facts == (other.name, other.md5, other.created, other.modified, set(other.grants))
    second = sample_sources.make_workspace()
    assert [(user.id, user.updated) for user in second.users.values()] == [
        (user.id, user.updated) for user in workspace().users.values()
    ]
    for channel in workspace().channels:
        assert second.messages(channel) == workspace().messages(channel)
        edits = [[message.edited for message in one.channels[channel].timeline] for one in (second, workspace())]
        assert edits[0] == edits[1]


def test_every_file_of_drive_is_read() -> None:
    assert {file_id for file_id in documents() if word_count(parsed(file_id)) <= 40} == set()


def allowed_by_pattern(source_id: str) -> set[str]:
    """Return the people whose patterns in the sample's list of people match a document."""
    return {person.id for person in sample.people().values() if person.reads(source_id)}


def test_the_patterns_of_the_people_agree_with_drive() -> None:
    expected = {file_id: readers(drive().readers(file_id)) for file_id in documents()}
    assert {file_id: allowed_by_pattern(file_id) for file_id in documents()} == expected


def test_the_patterns_of_the_people_agree_with_slack() -> None:
    found = [*conversations(), "T0LARKMOOR/C0LMSUPPORT/F0LMMODEMLOG"]
    expected = {source_id: readers(workspace().readers(source_id.split("/")[1])) for source_id in found}
    assert {source_id: allowed_by_pattern(source_id) for source_id in found} == expected


def test_ten_questions_are_for_drive_and_slack() -> None:
    assert (len(QUESTIONS), len(ON_DRIVE), len(IN_SLACK)) == (10, 5, 5)
    assert sum(not question.may for question in QUESTIONS) == 1


def test_drive_answers_at_the_named_places() -> None:
    for question in ON_DRIVE:
        assert question.source_id in documents(), question
        assert question.phrase, question
        holding = [piece for piece in passages(question.source_id) if question.phrase in collapsed(piece.text)]
        assert holding, question
        if question.place.sheet is not None:
            assert holding[0].sheet == question.place.sheet, question
        if question.place.section is not None:
            headings = [b for b in parsed(question.source_id).blocks if b.kind == "heading"]
            text = parsed(question.source_id).text
            titles = {text[b.start : b.end].lstrip("# ").strip() for b in headings}
            assert question.place.section in titles, question


def test_slack_answers_in_the_named_conversations() -> None:
    for question in IN_SLACK:
        assert question.source_id is not None, question
        assert question.phrase, question
        texts = conversations()[question.source_id]
        assert any(question.phrase in collapsed(text) for text in texts), question


def test_the_people_of_a_question_are_those_whom_the_source_lets_in() -> None:
    expected: dict[str, set[str]] = {}
    for question in QUESTIONS:
        assert question.source_id is not None, question
        on_drive = question.source is SourceName.GOOGLE_DRIVE
        channel = question.source_id.split("/")[1:2]
        granted = drive().readers(question.source_id) if on_drive else workspace().readers(*channel)
        expected[question.question] = readers(granted)
    assert {one.question: set(one.may) for one in QUESTIONS} == expected
    assert {one.question: set(one.may_not) for one in QUESTIONS} == {
        question: set(sample.people()) - may for question, may in expected.items()
    }
