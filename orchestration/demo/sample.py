"""The sample company as the product sees it: file roots, people and questions, read from `examples/sample_company`.

Enter: settings. Leave: settings whose file roots include the sample company's, and what the demonstration and the tests
ask. The folder lies in the repository and not in the installed package, so these commands want a checkout.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import psutil

from orchestration.demo.sample_sources import FOLDER, read
from orchestration.question_set import NewQuestion
from orchestration.supervision.run_state import read as read_state
from resources.core.domain import SourceName, document_id
from resources.core.errors import ConfigurationError
from resources.keys import make_home
from resources.settings import FileRoot, Settings

ROOTS_FILE = "sample-roots.json"
VARIABLE = "CONCORDANCE_FILE_ROOTS"


class Person(msgspec.Struct, frozen=True):
    """One of the sample company, or an outsider. Patterns are of source ids; `may_not_read` decides over `may_read`."""

    id: str
    name: str
    role: str
    email: str
    groups: list[str]
    may_read: list[str]
    may_not_read: list[str]

    def reads(self, source_id: str) -> bool:
        """Tell whether this person is meant to find a document."""
        allowed = any(fnmatchcase(source_id, pattern) for pattern in self.may_read)
        return allowed and not any(fnmatchcase(source_id, pattern) for pattern in self.may_not_read)


class AnswerLocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where in the document the answer stands; a page is a slide in presentations, a row counts data rows from 1."""

    page: int | None = None
    section: str | None = None
    sheet: str | None = None
    row: int | None = None


class Question(msgspec.Struct, frozen=True):
    """A question, the document and passage that answer it (none: unanswerable), and who may and may not see it."""

    question: str
    source_id: str | None
    place: AnswerLocation
    phrase: str | None
    may: list[str]
    may_not: list[str]
    source: SourceName = SourceName.FILES


def people() -> dict[str, Person]:
    """Return the people by their short id, in the order of the file."""
    return {person.id: person for person in msgspec.json.decode(read("people.json"), type=list[Person])}


def questions(more: bool = False) -> list[Question]:
    """Return the dozen questions, or the larger set."""
    return msgspec.json.decode(read("questions_more.json" if more else "questions.json"), type=list[Question])


def questions_of_sources() -> list[Question]:
    """Return the questions that Drive and Slack answer; the first few are the demonstration's."""
    return msgspec.json.decode(read("questions_sources.json"), type=list[Question])


def question_set(sources: Collection[SourceName]) -> Iterator[NewQuestion]:
    """Yield every answerable question about these sources for one person who may find its document and one who never must.

    The people take turns, so that each is asked some.
    """
    everybody = people()
    asked = [*questions(), *questions(more=True), *questions_of_sources()]
    for number, one in enumerate(asked):
        if one.source_id is None or one.source not in sources:
            continue
        for names, never in ((one.may, False), (one.may_not, True)):
            if names:
                person = everybody[names[number % len(names)]]
                yield NewQuestion(
                    question=one.question,
                    documents=[document_id(one.source, one.source_id)],
                    email=person.email,
                    groups=person.groups,
                    never=never,
                )


def roots() -> tuple[FileRoot, ...]:
    """Return the sample company's file roots with the addresses they have on this machine."""
    text = read("roots.json").decode().replace("file://{here}", FOLDER.as_uri())
    return tuple(FileRoot.model_validate(root) for root in json.loads(text))


def with_sample_roots(settings: Settings) -> Settings:
    """Return the settings with the sample company's roots added to the person's own.

    Writes `HOME/sample-roots.json` and points CONCORDANCE_FILE_ROOTS of this process at it, for what it starts.
    Idempotent. Raises `ConfigurationError` when a root of the person's own has the name of one of ours.
    """
    ours = {root.name: root for root in roots()}
    for root in settings.file_roots:
        if root.name in ours and root.url != ours[root.name].url:
            raise ConfigurationError(
                f"{VARIABLE} has a root called {root.name!r}, and so does the sample company. Rename yours, or try the "
                "sample in a home of its own: CONCORDANCE_HOME=.concordance-sample"
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
    """Tell whether the set that runs on this home was started with the sample company's roots.

    True as well when its environment can't be read (another user's process): the sync will tell.
    """
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
