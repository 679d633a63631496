"""Limits, retention, and figures that are fixed."""

from typing import Annotated

from pydantic import BaseModel, Field, field_validator

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.settings.values import Duration, Period, Words

MAX_UPLOAD_BYTES = 50 * 1024 * 1024
Count = Annotated[int, Field(ge=1)]


class Prompts(BaseModel, frozen=True, extra="forbid"):
    """Prompts that a model receives with each text: a prefix, and for services that take it an `input_type`."""

    query: str = ""
    passage: str = ""
    query_type: str | None = None
    passage_type: str | None = None


class LimitSettings(BaseModel):
    max_file_bytes: Count = 200 * 1024 * 1024
    max_upload_bytes: Count = MAX_UPLOAD_BYTES
    upload_quota_files: Count = 10_000
    upload_quota_bytes: Count = 10 * 1024**3
    upload_quota_waiting: Count = 1000
    upload_share_domains: Words = ()
    """Domains beyond the uploader's own that uploads may be shared with; `public` lifts the limit."""
    parse_seconds: Annotated[float, Field(gt=0)] = 30
    parse_memory_mb: Annotated[int, Field(ge=256)] = 2048
    parse_workers: Annotated[int, Field(ge=1, le=64)] = 2
    sync_runs: Annotated[int, Field(ge=1, le=64)] = 1
    """Runs that share the first sync of a source, or a full one. 1: one run does everything."""
    reindex_documents: Annotated[int | None, Field(ge=0)] = None
    """Documents that one run indexes again, of those that are indexed already. Unset: all. 0: none."""
    max_vectors: Count | None = None
    disk_reserve_bytes: Annotated[int | None, Field(ge=0)] = None
    """Free space of each disk that syncs leave. Unset: a fiftieth of the disk, at most 5 GiB."""
    embedding_window: Annotated[int | None, Field(ge=16)] = None
    """Largest text in tokens that the model sees whole. Unset: the model's own."""
    embedding_prompts: Prompts | None = None
    """Unset: what the model's folder says, nothing for services."""
    embedding_budget: Annotated[float | None, Field(ge=0)] = None
    """US dollars a month; warns at 80 %."""
    embedding_budget_stop: bool = True
    """Stop embedding when the budget is used up; if false, only warn."""
    embedding_price: Annotated[float | None, Field(ge=0)] = None
    """US dollars for a million tokens. Unset: the known price of the model, 0 for local ones."""
    prune_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Deletions of more than this share of a root or channel wait for approval."""
    search_rate_limit: Count = 100
    """Searches a minute for one person."""
    search_cache_seconds: Annotated[int, Field(ge=0)] = 300
    answer_cache_seconds: Annotated[int, Field(ge=0, le=604_800)] = 86_400
    answer_gate: Annotated[float | None, Field(ge=0, le=1)] = None
    """Questions whose best passage gives less evidence get no answer. Unset: by whether a language model reads the passages."""
    answer_context_tokens: Annotated[int, Field(ge=256, le=200_000)] = 4500
    llm_timeout_seconds: Annotated[float, Field(gt=0)] = 60
    llm_max_tokens: Annotated[int, Field(ge=16, le=100_000)] = 4096
    llm_input_price: Annotated[float, Field(ge=0)] = 0
    """US dollars for a million tokens that the language model reads."""
    llm_output_price: Annotated[float, Field(ge=0)] = 0
    """US dollars for a million tokens that it writes."""
    llm_context_window: Annotated[int | None, Field(ge=1024)] = None
    """Tokens that the model reads and writes together. Unset: nothing is shortened to fit."""
    llm_concurrency: Count | None = None
    """Calls of the model at a time. Unset: 1 for a service on this machine, else 16."""
    alert_repeat: Duration = "4h"
    """How often an alert that lasts is sent again. Source: the default of Prometheus's Alertmanager."""
    evaluation_floor: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Recall@10 on the question set below which the monthly evaluation alerts."""
    slack_lookback: Duration = "24h"
    """How far back each sync looks for edits and deletions in every channel."""
    http_connections: Count = 500
    http_connections_per_address: Count = 100
    """Limit for one address, or one IPv6 /64 network."""
    sign_in_failures: Count = 60
    """A minute, from one address."""
    token_max_lifetime: Duration = "90d"  # noqa: S105 # a duration
    """Access tokens are accepted for at most this long after they were issued."""
    session_lifetime: Duration = "7d"
    """A browser has to sign in again after this time."""
    session_idle: Duration = "12h"
    """A browser has to sign in again after this time without a request."""

    @field_validator("upload_share_domains")
    @classmethod
    def _plain_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_domain(given) for given in domains)


def _domain(given: str) -> str:
    """Return a domain as it is in addresses, or `public`."""
    try:
        plain = permissions.domain(given)
    except InvalidRequestError:
        plain = ""
    if "." not in plain and plain != permissions.PUBLIC:
        raise ValueError(f"must list domains such as partner.example, or public; not {given!r}")
    return plain


class RetentionSettings(BaseModel):
    erase_after: Duration = "7d"
    retention_answers: Period = "365d"
    retention_questions: Period = "90d"
    retention_conversations: Period = "90d"
    retention_feedback: Period = "365d"
    retention_jobs: Period = "90d"
    retention_runs: Period = "30d"
    retention_sync_errors: Period = "30d"
    retention_audit: Period = "730d"


class FixedFigures(BaseModel):
    """Figures that the environment does not set: measured, or never in need of a change. Tests pass others."""

    embedding_batch: int = 100
    reindex_max_loss: float = 0.03
    """Largest fall of recall@10 or MRR with which a reindex still switches to the new model."""
    slack_window_minutes: int = 30
    """Messages outside of threads that follow each other within this time are one document."""
    prune_minimum: int = 5
    """As many deletions in one sync never wait."""
    retry_seconds: tuple[float, ...] = (1.0, 5.0, 30.0)
    agreement: float = 0.3
    """Share of a passage's fused score that its nearest neighbours among the candidates decide."""
    query_expansion_seconds: float = 3
    rerank_depth: int = 30
