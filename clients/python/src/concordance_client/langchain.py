"""A retriever for LangChain."""

from functools import partial

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import Field, SkipValidation

from concordance_client._generated.models import Result
from concordance_client._generated.params import SearchOptions
from concordance_client._retrieval import metadata, passages
from concordance_client.async_client import AsyncClient
from concordance_client.client import Client


class ConcordanceRetriever(BaseRetriever):
    """Retrieves the passages that the client's caller may read, best first."""

    client: Client
    async_client: AsyncClient | None = None
    """Used by `ainvoke`; without one, the synchronous client runs in a thread."""
    k: int = 5
    """Passages to return at most; those that are hardly about the query are left out."""
    options: SkipValidation[SearchOptions] = Field(default_factory=SearchOptions)
    """Further fields of a search, such as `filters`."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        found = self.client.search(query, **passages(self.options, k or self.k))
        return [_document(result) for result in found.results]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if self.async_client is None:
            call = partial(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), k=k)
            return await run_in_executor(None, call)
        found = await self.async_client.search(query, **passages(self.options, k or self.k))
        return [_document(result) for result in found.results]


def _document(result: Result) -> Document:
    return Document(result.chunk_text, id=result.chunk_id, metadata=metadata(result))
