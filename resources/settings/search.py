"""Settings of embedding, search and answers."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from resources.settings.urls import HttpUrl

BUNDLED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OPENAI = "https://api.openai.com/v1"


class EmbeddingSettings(BaseModel):
    """The embedding model."""

    embedding_provider: Literal["local", "openai"] = "local"
    embedding_model: str | None = None
    embedding_dimensions: Annotated[int | None, Field(ge=1, le=65536)] = None
    openai_base_url: HttpUrl = OPENAI
    openai_api_key: SecretStr | None = None


class SearchSettings(BaseModel):
    """Settings of chunking, search and ranking."""

    chunk_profile: str = "auto"
    """A named profile, or SIZE/OVERLAP/MINIMUM in tokens."""
    fusion: Literal["weighted", "rrf", "dbsf", "minmax"] = "weighted"
    dense_weight: Annotated[float, Field(ge=0, le=1)] = 0.7
    """Share of the vectors in the fusions `weighted` and `rrf`; keywords have the rest."""
    search_depth: Annotated[int, Field(ge=10, le=500)] = 50
    """Candidates taken from each leg."""
    search_threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    """Results with a lower relevance are left out. Unset: those hardly about the query."""
    query_expansion: Literal["off", "paraphrases", "hyde"] = "off"
    rerank_model: str | None = None
    """Folder of a cross-encoder, or the name of one that was downloaded."""
    rerank_threshold: Annotated[float, Field(ge=0, le=1)] = 0.3
    """The same for results that were reranked, on the cross-encoder's own scale."""
    model_mirror: HttpUrl | None = None
    """Where `concordance model add` gets models by name; it speaks the interface of the Hugging Face Hub."""


class IndexSettings(BaseModel):
    """How collections of the vector index are named and created. Unset: as the server does by itself."""

    index_prefix: Annotated[str | None, Field(pattern=r"^([a-z0-9][a-z0-9_-]*)?$", max_length=40)] = None
    """What names of collections and aliases begin with, in a Qdrant server that several installations share."""
    index_shards: Annotated[int | None, Field(ge=1)] = None
    index_replicas: Annotated[int | None, Field(ge=1)] = None
    index_write_consistency: Annotated[int | None, Field(ge=1)] = None
    """Replicas that must have a write before it counts."""
    index_on_disk: bool | None = None
    """True keeps full vectors out of memory; the quantized ones stay in it."""
    index_quantization: Literal["int8", "binary", "none"] = "int8"
    index_hnsw_m: Annotated[int | None, Field(ge=0)] = None
    """Links of a point in the graph; 0 builds none."""
    index_hnsw_ef_construct: Annotated[int | None, Field(ge=4)] = None
    """Candidates that are looked at for each point while the graph is built."""

    @field_validator("index_prefix")
    @classmethod
    def _unmistakable(cls, prefix: str | None) -> str | None:
        if prefix and "documents" in prefix:  # or `documents_a_documents_…` would also be named by no prefix at all
            raise ValueError("must not contain the word documents, with which the names after it begin")
        return prefix


class AnswerSettings(BaseModel):
    """The language model."""

    llm_model: str | None = None
    llm_base_url: HttpUrl = OPENAI
    llm_api_key: SecretStr | None = None
