"""A retriever for LlamaIndex."""

import asyncio

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from concordance_client._generated.models import Result
from concordance_client._generated.params import SearchOptions
from concordance_client._retrieval import metadata, passages
from concordance_client.async_client import AsyncClient
from concordance_client.client import Client

SHOWN = {"title", "citation"}
"""Metadata that a language model reads with a passage."""


class ConcordanceRetriever(BaseRetriever):
    """Retrieves the passages that the client's caller may read, best first.

    `async_client` is used by `aretrieve`; without one, the synchronous client runs in a thread. `k` limits the number of passages; those
    that are hardly about the query are left out. `options` are further fields of a search, such as `filters`.
    """

    def __init__(
        self,
        client: Client,
        *,
        async_client: AsyncClient | None = None,
        k: int = 5,
        options: SearchOptions | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)  # pyright: ignore[reportUnknownMemberType] # LlamaIndex's own annotations are partial
        self._client, self._async_client = client, async_client
        self._options = passages(options or {}, k)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._client.search(query_bundle.query_str, **self._options)
        return [_node(result) for result in found.results]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._async_client is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        found = await self._async_client.search(query_bundle.query_str, **self._options)
        return [_node(result) for result in found.results]


def _node(result: Result) -> NodeWithScore:
    described = metadata(result)
    hidden = sorted(described.keys() - SHOWN)
    node = TextNode(
        id_=result.chunk_id,
        text=result.chunk_text,
        metadata=described,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=result.doc_id)},
    )
    return NodeWithScore(node=node, score=result.relevance_score)
