"""The retrievers of `concordance_client` in LangChain's standard tests and in LlamaIndex, against the service at `URL`.

`tests/integration/test_python_client_frameworks.py` runs this with the frameworks installed. The service has five passages about tea
that the caller of `TOKEN` may read, and one that the caller may not.
"""

import os
from collections.abc import Iterator

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from concordance_client import AsyncClient, AuthenticationError, Client
from concordance_client.langchain import ConcordanceRetriever as LangChainRetriever
from concordance_client.llama_index import ConcordanceRetriever as LlamaIndexRetriever

URL, TOKEN = os.environ["URL"], os.environ["TOKEN"]
QUERY = "When is tea served?"


def async_client() -> AsyncClient:
    return AsyncClient(URL, TOKEN)


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(URL, TOKEN) as client:
        yield client


class TestLangChain(RetrieversIntegrationTests):
    """LangChain's own tests of a retriever."""

    @property
    def retriever_constructor(self) -> type[LangChainRetriever]:
        return LangChainRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"client": Client(URL, TOKEN)}

    @property
    def retriever_query_example(self) -> str:
        return QUERY


class TestLangChainAsync(TestLangChain):
    """The same with an asynchronous client."""

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"client": Client(URL, TOKEN), "async_client": async_client()}


def test_langchain_documents_name_their_source(client: Client) -> None:
    retriever = LangChainRetriever(client=client, k=50, options={"filters": {"source_types": ["files"]}})
    documents = (retriever | RunnableLambda(list)).invoke(QUERY)
    assert sorted(one.metadata["title"] for one in documents) == [f"Tea {number}" for number in range(5)]
    assert all(one.metadata["source"].startswith("https://search.example/documents/") for one in documents)
    assert all(one.metadata["citation"].startswith("[") and one.id for one in documents)


def test_a_refusal_is_raised_through_langchain() -> None:
    with Client(URL, "wrong") as stranger, pytest.raises(AuthenticationError):
        LangChainRetriever(client=stranger).invoke(QUERY)


def test_llama_index_retrieves_nodes(client: Client) -> None:
    retriever: BaseRetriever = LlamaIndexRetriever(client, k=3)
    for nodes in (retriever.retrieve(QUERY), retriever.retrieve(QueryBundle(QUERY))):
        assert len(nodes) == 3
        assert all(isinstance(one, NodeWithScore) and 0 < one.get_score() <= 1 for one in nodes)
        assert all(one.node.ref_doc_id == one.metadata["doc_id"] for one in nodes)
    shown = nodes[0].get_content(MetadataMode.LLM)
    assert "citation: [1] Tea" in shown
    assert "mime_type" not in shown


@pytest.mark.parametrize("native", [True, False])
async def test_llama_index_retrieves_asynchronously(client: Client, native: bool) -> None:
    retriever = LlamaIndexRetriever(client, async_client=async_client() if native else None, k=50)
    assert {one.metadata["title"] for one in await retriever.aretrieve(QUERY)} == {f"Tea {n}" for n in range(5)}


def test_llama_index_answers_from_the_nodes(client: Client) -> None:
    engine = RetrieverQueryEngine.from_args(LlamaIndexRetriever(client, k=2), llm=MockLLM())
    response = engine.query(QUERY)
    assert len(response.source_nodes) == 2
    assert "Tea is served at" in str(response)
