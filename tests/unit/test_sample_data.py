"""The sample company is what its questions, people and sidecars say: checked on the files, without a running set."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from assets.stages.chunk import chunk
from assets.stages.grant import effective_permissions
from assets.stages.parse import parse, word_count
from assets.stages.profiles import resolve
from orchestration.demo import sample
from resources.core import filetypes
from resources.core.domain import Chunk, Item, ParsedDocument
from resources.core.errors import DocumentError
from resources.core.permissions import principals_of
from resources.embedding import tokenizer
from resources.settings import FileRoot, load
from resources.sources import sidecars

BROKEN = "company/legal/signed-lease.docx"
TOO_SHORT = "handbook/glossary-stub.md"
LEFT_OUT = {BROKEN, TOO_SHORT}


@cache
def roots() -> dict[str, FileRoot]:
    return {root.name: root for root in sample.roots()}


def test_each_person_says_what_they_see_and_one_is_an_administrator() -> None:
    people = sample.people().values()
    assert [one.id for one in people if not one.sees.endswith(".")] == []
    assert [one.id for one in people if one.administrator] == ["helen"]


@cache
def documents() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in roots():
        folder = sample.FOLDER / name
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(sidecars.SUFFIX):
                found[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    return found


def sidecar(path: Path) -> sidecars.Sidecar:
    beside = path.with_name(path.name + sidecars.SUFFIX)
    return sidecars.parse(beside.read_bytes()) if beside.exists() else sidecars.SILENT


@cache
def parsed(source_id: str) -> ParsedDocument:
    path = documents()[source_id]
    said = sidecar(path)
    data = path.read_bytes()
    mime_type = filetypes.mime_type(path.name, data[: filetypes.HEAD_BYTES])
    return parse(data, mime_type, title=said.title or path.stem, description=said.description)


@cache
def passages(source_id: str) -> list[Chunk]:
    return chunk(parsed(source_id), tokenizer(), resolve("auto", 256))


def collapsed(text: str) -> str:
    return " ".join(text.split())


def readers(source_id: str) -> set[str]:
    """Who may read a document by the product's own rules: sidecar, else root; drafts for their owner."""
    said = sidecar(documents()[source_id])
    item = Item(
        source_id=source_id, partition="", title="", path="", mime_type="", version="", owner=said.owner, tags=said.tags,
        permissions=said.permissions if said.permissions is not None else roots()[source_id.split("/")[0]].permissions,
    )  # fmt: skip
    granted = set(effective_permissions(item))
    return {p.id for p in sample.people().values() if granted & principals_of(p.email, p.groups)}


def all_questions() -> list[sample.SampleQuestion]:
    return [*sample.questions(), *sample.questions(more=True)]


ANSWERABLE = [question for question in all_questions() if question.source_id is not None]


def test_the_company_has_every_format_and_the_special_cases() -> None:
    kinds = {path.suffix for path in documents().values()}
    assert kinds == {".md", ".txt", ".html", ".csv", ".json", ".pdf", ".docx", ".pptx", ".xlsx", ".png", ".jpg"}
    assert 40 <= len(documents()) <= 60
    lifecycles = [sidecar(path).tags.get("lifecycle") for path in documents().values()]
    assert lifecycles.count("draft") == 1
    assert lifecycles.count("archived") == 1
    assert len(sample.questions()) == 12
    assert len(ANSWERABLE) == 50
    assert len(all_questions()) == 60


def test_no_file_is_large() -> None:
    assert {name for name, path in documents().items() if path.stat().st_size > 200_000} == set()


def test_every_document_is_read_except_the_two_that_should_not_be() -> None:
    with pytest.raises(DocumentError, match="damaged"):
        parsed(BROKEN)
    words = {source_id: word_count(parsed(source_id)) for source_id in documents() if source_id != BROKEN}
    assert {source_id for source_id, count in words.items() if count < 50} == {TOO_SHORT}


def misplaced(question: sample.SampleQuestion) -> str | None:
    """Return what is wrong with the place that a question names, if anything."""
    assert question.source_id is not None
    assert question.phrase
    if question.source_id in LEFT_OUT:
        return "its document is not indexed"
    holding = [piece for piece in passages(question.source_id) if question.phrase in collapsed(piece.text)]
    if not holding:
        return f"no passage of {question.source_id} contains {question.phrase!r}"
    piece, place = holding[0], question.place
    if place.page is not None and not (piece.page_start or 0) <= place.page <= (piece.page_end or 0):
        return f"pages {piece.page_start} to {piece.page_end}"
    if place.sheet is not None and piece.sheet != place.sheet:
        return f"sheet {piece.sheet}"
    if place.row is not None and (
        piece.row_start is None or piece.row_end is None or not piece.row_start <= place.row <= piece.row_end
    ):
        return f"rows {piece.row_start} to {piece.row_end}"
    if place.section is not None:
        document = parsed(question.source_id)
        headings = [block for block in document.blocks if block.kind == "heading"]
        titles = {document.text[block.start : block.end].lstrip("# ").strip() for block in headings}
        if place.section not in titles.union(*(block.section_path for block in headings)):
            return f"sections {sorted(titles)}"
    return None


def test_the_named_passages_stand_at_the_named_places() -> None:
    assert {one.question: fault for one in ANSWERABLE if (fault := misplaced(one))} == {}


def test_the_people_of_a_question_are_those_who_have_permission() -> None:
    everyone = set(sample.people())
    expected = {one.question: readers(one.source_id) for one in ANSWERABLE if one.source_id}
    assert {one.question: set(one.may) for one in ANSWERABLE} == expected
    assert {one.question: set(one.may_not) for one in ANSWERABLE} == {
        question: everyone - may for question, may in expected.items()
    }


def test_the_patterns_of_the_people_agree_with_the_permissions() -> None:
    people = sample.people().values()
    patterns = {source_id: {person.id for person in people if person.reads(source_id)} for source_id in documents()}
    assert patterns == {source_id: readers(source_id) for source_id in documents()}


def test_the_outsider_reads_nothing_and_the_draft_is_its_owners() -> None:
    assert not any(sample.people()["rey"].reads(source_id) for source_id in documents())
    assert readers("company/executive/strategy-2027.md") == {"helen"}


def test_the_two_near_duplicates_differ_by_a_few_words() -> None:
    first = set(parsed("company/support/returns-and-repairs.txt").text.split())
    second = set(parsed("company/sales/returns-for-resellers.txt").text.split())
    assert 0 < len(first ^ second) < 20
    assert len(first & second) > 100


def test_unanswerable_questions_name_no_document() -> None:
    none = [question for question in all_questions() if question.source_id is None]
    assert len(none) == 10
    assert all(question.phrase is None and not question.may for question in none)


def test_every_sidecar_belongs_to_a_document() -> None:
    beside = set(documents().values())
    orphans = [
        path for path in sample.FOLDER.rglob("*" + sidecars.SUFFIX)
        if path.with_name(path.name.removesuffix(sidecars.SUFFIX)) not in beside
    ]  # fmt: skip
    assert orphans == []


def test_sample_roots_are_added_to_a_persons_own_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sample.VARIABLE, json.dumps([_own("mine", tmp_path)]))
    merged = sample.with_sample_roots(load(home=tmp_path / "home"))
    assert [root.name for root in merged.file_roots] == ["mine", "company", "finance", "people", "handbook"]
    assert load(home=tmp_path / "home").file_roots == merged.file_roots  # read back through the variable
    assert sample.with_sample_roots(merged).file_roots == merged.file_roots


def test_a_root_of_the_persons_own_with_one_of_our_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sample.VARIABLE, json.dumps([_own("finance", tmp_path)]))
    with pytest.raises(sample.ConfigurationError, match="'finance'"):
        sample.with_sample_roots(load(home=tmp_path / "home"))


def _own(name: str, folder: Path) -> dict[str, str]:
    return {"name": name, "url": folder.as_uri(), "tenant": "t", "dataset": "d"}


@cache
def maker() -> ModuleType:
    path = sample.FOLDER.parent / "make_sample.py"
    spec = importlib.util.spec_from_file_location("make_sample", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_sample"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def test_making_the_binaries_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    hashes = []
    for name in ("first", "second"):
        made = maker().make_all(tmp_path / name)
        hashes.append([(p.relative_to(tmp_path / name), hashlib.sha256(p.read_bytes()).hexdigest()) for p in made])
    assert hashes[0] == hashes[1]


def test_no_archive_carries_the_time_of_its_making(tmp_path: Path) -> None:
    """Two runs in the same second would agree by chance; a date in an entry shows it."""
    archives = [path for path in maker().make_all(tmp_path) if zipfile.is_zipfile(path)]
    assert len(archives) == 11
    dates = {entry.date_time for path in archives for entry in zipfile.ZipFile(path).infolist()}
    assert dates == {(2026, 7, 1, 9, 0, 0)}


def test_the_committed_binaries_say_what_their_sources_say(tmp_path: Path) -> None:
    made = maker().make_all(tmp_path)
    assert made
    for path in made:
        source_id = path.relative_to(tmp_path).as_posix()
        if source_id == BROKEN:
            continue
        data = path.read_bytes()
        mime_type = filetypes.mime_type(path.name, data[: filetypes.HEAD_BYTES])
        said = sidecar(documents()[source_id])
        fresh = parse(data, mime_type, title=said.title or path.stem, description=said.description)
        assert fresh.text == parsed(source_id).text, f"{source_id} is stale: run examples/make_sample.py"
