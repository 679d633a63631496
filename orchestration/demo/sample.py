"""The sample company's file roots, people and questions, read from `examples/sample_company`.

The folder is not part of the installed package, so commands that use it need a checkout of the repository.
"""

import json
import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import psutil

from orchestration.demo.sample_sources import FOLDER, read
from orchestration.evaluation.question_set import NewQuestion
from orchestration.supervision.run_state import read as read_state
from resources.core.domain import SourceName, document_id
from resources.core.errors import ConfigurationError
from resources.keys import make_home
from resources.sample_people import SamplePerson
from resources.settings import FileRoot, Settings

ROOTS_FILE = "sample-roots.json"
VARIABLE = "CONCORDANCE_FILE_ROOTS"


class SampleReader(SamplePerson, frozen=True, kw_only=True):
    """A member of the sample company, or an outsider. Patterns match source ids; `may_not_read` overrides `may_read`."""

    may_read: list[str]
    may_not_read: list[str]

    def reads(self, source_id: str) -> bool:
        allowed = any(fnmatchcase(source_id, pattern) for pattern in self.may_read)
        return allowed and not any(fnmatchcase(source_id, pattern) for pattern in self.may_not_read)


class AnswerLocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Location of the answer in its document; in presentations, a page is a slide. Data rows count from 1."""

    page: int | None = None
    section: str | None = None
    sheet: str | None = None
    row: int | None = None


class SampleQuestion(msgspec.Struct, frozen=True):
    """A question, the document and phrase that answer it (None: no answer exists), and who may and may not see it."""

    question: str
    source_id: str | None
    place: AnswerLocation
    phrase: str | None
    may: list[str]
    may_not: list[str]
    source: SourceName = SourceName.FILES
    near: bool = False
    """Without an answer, although it is about something that documents mention."""


class Try(msgspec.Struct, frozen=True):
    """A search to try, and what it shows."""

    question: str
    person: str
    """Key in `people`."""
    shows: str


TRIES = (
    Try("How much does Osprey Marine claim?", "helen", "a confidential file, which the chief executive may read"),
    Try("How much does Osprey Marine claim?", "ines", "the same as an engineer, who may not"),
    Try("When do the letters about the new prices of Weir leave?", "helen", "a message in a private Slack channel"),
)
"""Printed by `up --sample`."""


def people() -> dict[str, SampleReader]:
    return {person.id: person for person in msgspec.json.decode(read("people.json"), type=list[SampleReader])}


def questions(more: bool = False) -> list[SampleQuestion]:
    """Return the twelve questions of the demonstration, or the larger set."""
    return msgspec.json.decode(read("questions_more.json" if more else "questions.json"), type=list[SampleQuestion])


ANSWERED = (
    "How many unused holidays may I carry over to the next year?",
    "Where do we gather in case of fire?",
    "Who took the piano from Station Road?",
    "How much does Osprey Marine claim?",
    "What excess does our liability insurance have from October?",
    "When do the letters about the new prices of Weir leave?",
)
"""Questions whose answers the demonstration prints: from Markdown, a picture, Slack, a confidential file, Drive and a private channel."""


def answered() -> list[SampleQuestion]:
    """Return the questions whose answers the demonstration prints."""
    everything = {one.question: one for one in (*questions(), *questions(more=True), *questions_of_sources())}
    return [everything[text] for text in ANSWERED]


def questions_of_sources() -> list[SampleQuestion]:
    """Return the questions about Drive and Slack; the demonstration asks the first few."""
    return msgspec.json.decode(read("questions_sources.json"), type=list[SampleQuestion])


def question_set(sources: Collection[SourceName]) -> Iterator[NewQuestion]:
    """Yield every answerable question about these sources, for one person who may find its document and one who must not.

    The questions are distributed over the people.
    """
    everyone = people()
    asked = [*questions(), *questions(more=True), *questions_of_sources()]
    for number, one in enumerate(asked):
        if one.source_id is None or one.source not in sources:
            continue
        for names, never in ((one.may, False), (one.may_not, True)):
            if names:
                person = everyone[names[number % len(names)]]
                yield NewQuestion(
                    question=one.question,
                    documents=[document_id(one.source, one.source_id)],
                    email=person.email,
                    groups=person.groups,
                    never=never,
                )


def roots() -> tuple[FileRoot, ...]:
    """Return the sample company's file roots with their URLs on this machine."""
    text = read("roots.json").decode().replace("file://{here}", FOLDER.as_uri())
    return tuple(FileRoot.model_validate(root) for root in json.loads(text))


def with_sample_roots(settings: Settings) -> Settings:
    """Return the settings with the sample company's roots added to the user's own.

    Writes `HOME/sample-roots.json` and sets CONCORDANCE_FILE_ROOTS to it, for processes that this one starts.
    Idempotent. Raises `ConfigurationError` if another root has the name of a sample root.
    """
    ours = {root.name: root for root in roots()}
    for root in settings.file_roots:
        if root.name in ours and root.url != ours[root.name].url:
            raise ConfigurationError(
                f"{VARIABLE} has a root named {root.name!r}, and so does the sample company. Rename yours, or use a "
                "separate home for the sample: CONCORDANCE_HOME=.concordance-sample"
            )
    own = [root for root in settings.file_roots if root.name not in ours]
    merged = (*own, *ours.values())
    path = settings.home / ROOTS_FILE
    make_home(settings)
    draft = path.with_suffix(".new")
    text = json.dumps([root.model_dump(exclude_unset=True) for root in merged], indent=2)
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)
    os.environ[VARIABLE] = f"@{path}"
    return settings.model_copy(update={"file_roots": merged})


def served_by_running(settings: Settings) -> bool:
    """Return True if the running services were started with the sample company's roots, or if that cannot be read."""
    service = read_state(settings).services.get("dagster-code")
    if service is None or service.pid is None:
        return True
    try:
        text = psutil.Process(service.pid).environ().get(VARIABLE, "[]")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return True
    if text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    found = {(root["name"], root["url"].rstrip("/")) for root in json.loads(text)}
    return found >= {(root.name, root.url) for root in roots()}
