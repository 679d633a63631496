"""Settings of embedding, search and answers."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from resources.settings.urls import HttpUrl

BUNDLED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OPENAI = "https://api.openai.com/v1"


class EmbeddingSettings(BaseModel):
    """The embedding model, and how documents are cut for it."""

    embedding_provider: Literal["local", "openai"] = "local"
    embedding_model: str | None = None
    embedding_dimensions: Annotated[int | None, Field(ge=1, le=65536)] = None
    openai_base_url: HttpUrl = OPENAI
    openai_api_key: SecretStr | None = None
    chunk_profile: str = "auto"


class SearchSettings(BaseModel):
    acl_max_age: Annotated[str, Field(pattern=r"^\d+[smhd]$")] = "24h"
    """Hits whose permissions were last checked longer ago than this are held back."""
    query_expansion: Literal["off", "paraphrases", "hyde"] = "off"
    rerank_model: str | None = None
    """Folder of a cross-encoder, or the name of one that was downloaded."""


class AnswerSettings(BaseModel):
    """The language model, and when there is no answer."""

    llm_model: str | None = None
    llm_base_url: HttpUrl = OPENAI
    llm_api_key: SecretStr | None = None
