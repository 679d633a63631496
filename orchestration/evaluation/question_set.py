"""The company's question set in Postgres: questions, the user each is asked as, and the documents to find.

The monthly evaluation and the comparison before a change of the embedding model use the same set. Questions from feedback are only
proposed; they count once the operator has accepted them.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from resources.core import permissions
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.stores.postgres import Connection
from sql.questions import Questions
from sql.serving import WebSession


class NewQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to add to the set. `groups` lists groups of the user that the synced directory does not know."""

    question: str
    documents: Sequence[str]
    """Documents to find, or with `never` documents that must not be found, by doc_id."""
    email: str
    groups: Sequence[str] = ()
    never: bool = False


class QuestionLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"email": "as"}):
    """A question in a file, with documents given by link, source id or doc_id."""

    question: str
    documents: Annotated[list[str], Meta(min_length=1)]
    email: str
    groups: list[str] = []
    never: bool = False


class QuestionDocument(msgspec.Struct, frozen=True):
    """A document that a question names. All fields but the id are None if it is not in the registry."""

    doc_id: str
    source: str | None
    source_id: str | None
    title: str | None
    state: str | None

    @property
    def name(self) -> str:
        """The source id, or the doc_id of a document that is not in the registry."""
        return self.source_id or self.doc_id


class StoredQuestion(msgspec.Struct, frozen=True, kw_only=True, rename={"email": "as"}):
    id: int
    question: str
    documents: list[QuestionDocument]
    email: str
    groups: list[str]
    never: bool
    state: Literal["proposed", "accepted"]
    origin: Literal["command", "feedback"]
    added_by: str
    added_at: datetime


def stored(connection: Connection, *, accepted: bool = False) -> list[StoredQuestion]:
    """Return all questions, or only the accepted ones, in the order in which they were added."""
    rows = Questions(connection).stored(state="accepted" if accepted else None)
    return [
        StoredQuestion(
            id=row.id,
            question=row.question,
            documents=msgspec.convert(row.documents, list[QuestionDocument]),
            email=row.email,
            groups=row.groups,
            never=row.never,
            state=row.state,
            origin=row.origin,
            added_by=row.added_by,
            added_at=row.added_at,
        )
        for row in rows
    ]


def put(connection: Connection, entries: Iterable[NewQuestion], added_by: str) -> list[int]:
    """Add questions and return their ids; a question that the user is already asked keeps its id. Raises `InvalidRequestError`."""
    registry, ids = Questions(connection), list[int]()
    for one in entries:
        access = _person(one.email, one.groups)
        question_id = registry.put(
            question=one.question,
            doc_ids=list(dict.fromkeys(one.documents)),
            email=access.email,
            groups=sorted(name for name in access.principals if name.startswith("group:")),
            never=one.never,
            added_by=added_by,
        )
        ids.append(question_id)
    return ids


def resolve(connection: Connection, lines: Iterable[QuestionLine]) -> list[NewQuestion]:
    """Look up the documents of each line. Raises `InvalidRequestError` that names every unknown document."""
    from serving.search.retrieval.query import (
        normalise,  # `up` adds the sample's questions without loading the search libraries
    )

    entries: list[NewQuestion] = []
    unknown: list[str] = []
    for line in lines:
        access = _person(line.email, line.groups)
        found = [(name, _doc_id(connection, name, access)) for name in line.documents]
        unknown += [name for name, doc_id in found if doc_id is None]
        documents = [doc_id for _, doc_id in found if doc_id is not None]
        entries.append(
            NewQuestion(
                question=normalise(line.question),
                documents=documents,
                email=line.email,
                groups=line.groups,
                never=line.never,
            )
        )
    if unknown:
        raise InvalidRequestError(
            f"Not found in any source: {', '.join(dict.fromkeys(unknown))}. No question was added. Give the source id or the link of "
            "documents that have been synced."
        )
    return entries


def read(path: Path) -> list[QuestionLine]:
    """Return the questions of a JSON file. Raises `InvalidRequestError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[QuestionLine])
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(
            f'{path}: {error}. The file must be a JSON list of {{"question", "documents": [link or source id], "as": email}}; "groups" '
            'and "never" are optional.'
        ) from error


def _person(email: str, groups: Sequence[str]) -> Access:
    """Return the user's access without the directory. Raises `InvalidRequestError` for a malformed email or group."""
    address = permissions.email(email)
    return Access(email=address, principals=permissions.principals_of(address, groups))


def _doc_id(connection: Connection, name: str, access: Access) -> str | None:
    from serving.search.references import reference
    from serving.search.trace import parameters

    row = WebSession(connection).why(
        **parameters(reference(name)),
        principals=sorted(access.principals),
        fresh_since=datetime.now(UTC),
        operator=True,
    )
    return None if row is None else row.doc_id
