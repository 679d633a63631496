"""The tools that agents call: `search`, `fetch` and `ask`. They are the searches, documents and answers of the HTTP interface.

Names and shapes of `search` and `fetch` are those that ChatGPT requires. Source:
https://platform.openai.com/docs/mcp#create-an-mcp-server
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.agents.service import AgentServices
from serving.answers.access_check import CurrentAccess
from serving.answers.asking import enforce_rate_limit
from serving.answers.schemas import AskRequest
from serving.documents.reading import MAX_CONTEXT, MAX_INTEGER, OpenDocument, open_document
from serving.http.errors import not_found
from serving.http.fields import Name
from serving.http.invalid import fault_of
from serving.search.filters import Filters, ShortList, SourceType
from serving.search.results import Result
from serving.search.retrieval.passage import Warning_
from serving.search.schemas import Citation, Question
from serving.search.searches import SearchRequest, found
from sql.fields import Moment

PART = 2 * MAX_CONTEXT
"""Characters of a document that one `fetch` returns, some 10,000 tokens."""


class SearchInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search for passages."""

    query: Question
    """What to look for, in words or as a question: 1 to 1000 characters. A phrase in quotation marks must occur."""
    top_k: Annotated[int, Meta(ge=1, le=20)] = 8
    """Number of documents to return."""
    source_types: Annotated[list[SourceType], ShortList] = []
    """Search these sources only: `google_drive`, `slack`, `upload`, `files`. Empty: all."""


class FoundPassage(msgspec.Struct, frozen=True, kw_only=True):
    """The best passage of a document."""

    id: str
    """Pass it to `fetch` to read the text around the passage."""
    title: str
    """Title of the document."""
    url: str
    """Opens the document at the passage. Cite it."""
    text: str
    """The passage."""
    citation: str
    """The source in words: title, source and date."""
    source_type: str
    """The source of the document, such as `slack`."""
    modified_at: Moment | None
    """When the document was last modified; null if unknown."""


class FoundPassages(msgspec.Struct, frozen=True, kw_only=True):
    """Passages that a search found, best first."""

    results: list[FoundPassage]
    """One passage of each document."""
    query_id: str
    """ID of this search in the audit log."""
    held_back: int
    """Number of documents left out because their permissions were checked too long ago."""
    warnings: list[Warning_]
    """Reasons why the results may be incomplete."""


class FetchInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document, or a part of it, to read."""

    id: Name
    """`id` of a search result, for the text around the passage, or the ID of a document, for its beginning."""
    start: Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | None = None
    """First character to return: `next_start` of the part before, to read on. Null: as `id` says."""


class FetchMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of the document."""

    source_type: str
    """The source of the document."""
    path: str
    """The folders that you may know, and the file name."""
    owner: str | None
    """Email or name of the owner; null if unknown."""
    mime_type: str
    """MIME type of the document."""
    created_at: Moment | None
    """When the document was created; null if unknown."""
    modified_at: Moment | None
    """When the document was last modified; null if unknown."""
    citation: str
    """The source in words: title, source and date."""
    text_start: int
    """First character of `text` in the document, from 0."""
    next_start: int | None
    """`start` of the next part; null at the end of the document."""


class FetchedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or a part of it."""

    id: str
    """The ID that was asked for."""
    title: str
    """Title of the document."""
    text: str
    """The text, at most 40,000 characters besides the passage."""
    url: str
    """Opens the document. Cite it."""
    metadata: FetchMetadata
    """Metadata of the document."""


class AskInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question."""

    query: Question
    """The question, complete in itself: 1 to 1000 characters."""
    source_types: Annotated[list[SourceType], ShortList] = []
    """Answer from these sources only: `google_drive`, `slack`, `upload`, `files`. Empty: all."""


class AnswerSource(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that the answer cites."""

    index: int
    """`[n]` in the answer."""
    id: str
    """Pass it to `fetch` to read the text around the passage."""
    title: str
    """Title of the document."""
    url: str
    """Opens the document at the passage."""
    citation: str
    """The source in words: title, source and date."""


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer from the documents."""

    answer: str
    """The text. `[n]` refers to the source with this `index`."""
    found: bool
    """False if the documents do not answer the question."""
    sources: list[AnswerSource]
    """The passages that the answer cites."""
    unsupported: list[str]
    """Sentences of the answer that their sources do not say. Do not rely on them."""
    answer_id: str
    """ID of the answer, for `GET /api/answers/{answer_id}`."""
    held_back: int
    """Number of documents left out because their permissions were checked too long ago."""
    warnings: list[Warning_]
    """Reasons why the answer may be incomplete or uncertain."""


class AgentCaller(NamedTuple):
    """In whose name an agent calls, and what says whether it still may, for an answer that takes a while."""

    access: Access
    current: CurrentAccess


async def search(agents: AgentServices, caller: AgentCaller, data: SearchInput) -> FoundPassages:
    wanted = SearchRequest(query=data.query, top_k=data.top_k, filters=Filters(source_types=data.source_types))
    response = await found(agents.search, wanted, caller.access)
    return FoundPassages(
        results=[
            FoundPassage(
                id=_passage_id(one),
                title=one.title,
                url=one.citation.link,
                text=one.chunk_text,
                citation=_words(one.citation),
                source_type=one.source_type,
                modified_at=one.modified_at,
            )
            for one in response.results
        ],
        query_id=response.query_id,
        held_back=response.held_back,
        warnings=response.warnings,
    )


async def fetch(agents: AgentServices, caller: AgentCaller, data: FetchInput) -> FetchedDocument:
    doc_id, _, place = data.id.partition("#")
    chunk = _chunk(place) if data.start is None else None
    start = data.start or 0
    opened = await open_document(
        agents.documents,
        caller.access,
        doc_id,
        chunk=chunk,
        start=start,
        end=start if chunk is not None else min(start + PART, MAX_INTEGER),
        context=MAX_CONTEXT if chunk is not None else 0,
    )
    read = opened.response
    return FetchedDocument(
        id=data.id,
        title=read.title,
        text=read.text,
        url=read.citation.link,
        metadata=FetchMetadata(
            source_type=read.source_type,
            path=read.path,
            owner=read.owner,
            mime_type=read.mime_type,
            created_at=read.created_at,
            modified_at=read.modified_at,
            citation=_words(read.citation),
            text_start=read.text_start,
            next_start=_next_start(opened),
        ),
    )


def _next_start(opened: OpenDocument) -> int | None:
    """Return where the rest of the text begins; None at its end. The text may end before white space, which is in no chunk."""
    read, chunks = opened
    if not chunks:
        return None
    cut = max(one.end_char for one in chunks) > read.text_end
    return read.text_end if cut or chunks[-1].chunk_index + 1 < read.chunk_count else None


async def ask(agents: AgentServices, caller: AgentCaller, data: AskInput) -> AgentAnswer:
    await enforce_rate_limit(agents.search, caller.access)
    wanted = AskRequest(query=data.query, filters=Filters(source_types=data.source_types))
    given = await agents.answers.ask(wanted, caller.access, caller.current)
    return AgentAnswer(
        answer=given.answer,
        found=given.found,
        sources=[
            AnswerSource(
                index=one.citation.index,
                id=_passage_id(one),
                title=one.title,
                url=one.citation.link,
                citation=_words(one.citation),
            )
            for one in given.sources
            if one.citation.index in given.cited
        ],
        unsupported=[one.text for one in given.sentences if not one.supported],
        answer_id=given.answer_id,
        held_back=given.held_back,
        warnings=given.warnings,
    )


def _passage_id(result: Result) -> str:
    return f"{result.doc_id}#{result.chunk_index}"


def _words(citation: Citation) -> str:
    """Return a citation of the format `inline` without its number."""
    return citation.text.partition("] ")[2]


def _chunk(text: str) -> int | None:
    """Return the position of a passage that the ID of a result ends with. Raises `not-found` as for an unknown passage."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text[:11]) > MAX_INTEGER:
        raise not_found()
    return int(text)


class ToolCall(NamedTuple):
    """A tool: what it does, and its types."""

    title: str
    description: str
    takes: type[msgspec.Struct]
    returns: type[msgspec.Struct]
    run: Callable[[AgentServices, AgentCaller, Any], Awaitable[msgspec.Struct]]

    async def call(self, agents: AgentServices, caller: AgentCaller, arguments: dict[str, Any]) -> msgspec.Struct:
        """Run the tool for a caller. Null counts as leaving an optional argument out, since some models fill in every argument.

        Raises `InvalidRequestError` naming the argument, and what the HTTP interface raises.
        """
        optional = {one.encode_name for one in msgspec.structs.fields(self.takes) if not one.required}
        given = {name: value for name, value in arguments.items() if value is not None or name not in optional}
        try:
            data = msgspec.convert(given, self.takes)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(str(fault_of(self.takes, error))) from None
        return await self.run(agents, caller, data)


TOOLS = {
    "search": ToolCall(
        "Search the company's documents",
        "Find passages in the company's documents, files and Slack messages that the user may read. Returns the best passage of each "
        "document with a link. Use it for anything about the company, its people, projects, policies and customers.",
        SearchInput,
        FoundPassages,
        search,
    ),
    "fetch": ToolCall(
        "Read a document",
        "Read the text of a document, or of the part around a passage that `search` found. Long documents come in parts.",
        FetchInput,
        FetchedDocument,
        fetch,
    ),
    "ask": ToolCall(
        "Ask the company's documents",
        "Get a short answer to a question from the documents that the user may read, with numbered sources, each sentence checked against "
        "its source. Prefer `search` and `fetch` to compare several documents.",
        AskInput,
        AgentAnswer,
        ask,
    ),
}
