"""Every setting of the platform: read from the environment (prefix `CONCORDANCE_`) and `.env`, validated once, then frozen.

`load()` is the only place that reads the environment. Each field's description is what `docs/configuration.md` says of it.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from resources.core.durations import PATTERN
from resources.core.errors import ConfigurationError
from resources.withheld import withheld

BUNDLED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MAX_UPLOAD_BYTES = 50 * 1024 * 1024


class FileRoot(BaseModel):
    """One folder or bucket prefix that may be indexed; nothing outside the listed roots is ever read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    url: str
    kind: Literal["files", "book"] = "files"
    tenant: str
    dataset: str
    permissions: tuple[str, ...] = ()
    owner: str | None = None
    base_url: str | None = None
    profile: str | None = None
    tags: dict[str, Any] = Field(default_factory=dict)

    @field_validator("url")
    @classmethod
    def _scheme(cls, url: str) -> str:
        schemes = ("file://", "s3://", "az://", "azure://", "abfs://", "abfss://", "gs://")
        if not url.startswith(schemes):
            raise ValueError(f"url must begin with one of {', '.join(schemes)}, not {url!r}")
        return url.rstrip("/")


class Settings(BaseSettings):
    """The validated settings; see `docs/configuration.md`."""

    model_config = SettingsConfigDict(env_prefix="CONCORDANCE_", env_file=".env", frozen=True, extra="ignore")

    home: Path = Field(
        Path(".concordance"), description="Folder of all state: databases, lake, keys, logs. Never in git."
    )
    http_port: int = Field(8080, ge=1, le=65535, description="Port of the HTTP interface.")
    http_host: str = Field("127.0.0.1", description="Address the HTTP interface listens on.")
    http_connections: int = Field(
        500, ge=10, description="Open connections that the HTTP interface takes; past them the idlest one makes room."
    )
    http_connections_per_address: int = Field(
        100, ge=1, description="Open connections from one address, or from one IPv6 /64 network."
    )
    trusted_proxies: str = Field(
        "127.0.0.1,::1",
        description="Comma list of addresses and networks of reverse proxies: their X-Forwarded-For counts, and their connections are "
        "limited in all alone.",
    )
    public_url: str | None = Field(
        None,
        description="Address that people use; links in citations start with it. Default: http://127.0.0.1:HTTP_PORT.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Further host names that the HTTP interface is addressed by, as a comma list or a JSON list. "
        "PUBLIC_URL's, HTTP_HOST and loopback names are always allowed.",
    )
    qdrant_port: int = Field(6333, ge=1, le=65535, description="Port of the embedded vector server.")
    postgres_port: int = Field(5433, ge=1, le=65535, description="Port of the embedded Postgres.")
    dagster_port: int = Field(3000, ge=1, le=65535, description="Port of the Dagster UI.")
    postgres_url: SecretStr | None = Field(
        None, description="URL of your own Postgres (postgresql://…). Unset: the embedded one."
    )
    qdrant_url: str | None = Field(None, description="URL of your own Qdrant. Unset: the embedded one.")
    qdrant_api_key: SecretStr | None = Field(
        None, description="API key of Qdrant. Unset: none for your own; the embedded one demands the key kept in HOME."
    )
    dagster_url: str | None = Field(None, description="URL of the Dagster webserver. Unset: the one on DAGSTER_PORT.")
    dagster_secret: SecretStr | None = Field(
        None,
        description="Secret of Dagster's webserver, sent as a bearer token. Unset: none for your own; ours demands the one kept in HOME.",
    )
    lake_url: str | None = Field(
        None, description="Where the lake lives: file:///path, s3://bucket/prefix, az://… or gs://…. Unset: HOME/lake."
    )

    embedding_provider: Literal["local", "openai"] = Field(
        "local", description="`local` runs a BERT model on the CPU; `openai` asks any OpenAI-compatible service."
    )
    embedding_model: str | None = Field(
        None,
        description="local: folder of a sentence-transformers BERT model (default: bundled). openai: default text-embedding-3-small.",
    )
    embedding_dimensions: int | None = Field(
        None,
        ge=1,
        le=65536,
        description="Length of the vectors where the model lets one choose. Default: the model's own.",
    )
    embedding_window: int | None = Field(
        None,
        ge=16,
        description="Largest text in tokens that the model sees whole. Default: the model's own (256 bundled, 8191 OpenAI).",
    )
    embedding_batch: int = Field(100, ge=1, le=2048, description="Texts in one request to the embedding service.")
    embedding_price: float | None = Field(
        None,
        ge=0,
        description="Price of a million tokens in US dollars. Default: the known price of the model, 0 for local ones.",
    )
    embedding_budget: float | None = Field(
        None, ge=0, description="Monthly embedding budget in US dollars; warns at 80 %."
    )
    embedding_budget_stop: bool = Field(True, description="Stop embedding, cleanly, when the budget is used up.")
    reindex_max_loss: float = Field(
        0.03,
        ge=0,
        le=1,
        description="Largest fall of recall@10 or MRR on the question set with which a reindex still switches to the new model.",
    )
    openai_base_url: str = Field(
        "https://api.openai.com/v1", description="Base URL of the OpenAI-compatible embedding service."
    )
    openai_api_key: SecretStr | None = Field(None, description="Key for that service.")

    secret_key: SecretStr | None = Field(
        None, description="Signs access tokens; at least 32 characters. Unset: made once and kept in HOME."
    )
    metrics_token: SecretStr | None = Field(
        None, description="Token that `/metrics` asks for. Unset: made once and kept in HOME."
    )
    encryption_keys: SecretStr | None = Field(
        None,
        description="Comma list of Fernet keys; the first encrypts secrets at rest, the rest decrypt. Unset: made once and kept in HOME.",
    )

    file_roots: Annotated[tuple[FileRoot, ...], NoDecode] = Field(
        (), description="JSON list of file roots, or @path to a file with one."
    )
    max_file_bytes: int = Field(
        200 * 1024 * 1024, ge=1, description="Files of a root larger than this are skipped, with the reason."
    )
    max_upload_bytes: int = Field(MAX_UPLOAD_BYTES, ge=1, description="Largest upload; enforced while it streams in.")
    upload_share_domains: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Domains beyond the uploader's own that uploads may be shared with, as a comma list; `public` lifts the limit. "
        "Administrators may always share with anyone.",
    )
    upload_quota_files: int = Field(10_000, ge=1, description="Uploads that one person may keep.")
    upload_quota_bytes: int = Field(
        10 * 1024**3, ge=1, description="Bytes that the uploads of one person may have together."
    )
    upload_quota_waiting: int = Field(
        1000, ge=1, description="Uploads and ingests of one person that may wait to be indexed."
    )
    parse_seconds: float = Field(30, gt=0, description="Time limit for parsing one file.")
    parse_memory_mb: int = Field(2048, ge=256, description="Memory limit for the process that parses files.")
    parse_workers: int = Field(2, ge=1, le=64, description="Processes that parse files at the same time.")
    chunk_profile: str = Field("auto", description="Default chunking profile: auto, a500, b1000, d1000 or e2000.")
    max_vectors: int | None = Field(
        None, ge=1, description="Most vectors the index may hold; warns at 80 %, stops cleanly before it is passed."
    )
    max_index_bytes: int | None = Field(
        None,
        ge=1,
        description="Most bytes of vectors the index may hold; warns at 80 %, stops cleanly before it is passed.",
    )

    drive_token: SecretStr | None = Field(
        None, description="A bearer token for Drive, for tests and simulators; it is not refreshed."
    )
    drive_api_url: str = Field(
        "https://www.googleapis.com",
        description="Address of Google's interfaces; a simulator's serves the sign-in as well.",
    )
    drive_roots: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="What of Drive is indexed, as a comma list or a JSON list: my_drive, shared_drives, ids of shared drives or folders. "
        "Empty: My Drive and every shared drive.",
    )
    drive_follow_shortcuts: bool = Field(
        False,
        description="Whether a shortcut inside a root brings in the file it points at when that file lies outside of every root. It is "
        "indexed with its own permissions. Anyone who can edit a root decides what is indexed then.",
    )
    google_client_id: str | None = Field(None, description="OAuth client for people who connect their Drive.")
    google_client_secret: SecretStr | None = Field(None, description="The OAuth client's secret.")
    google_service_account_file: Path | None = Field(
        None, description="Key file of a service account that reads Drive."
    )
    google_subject: str | None = Field(
        None, description="Person in whose name the service account reads (domain-wide delegation)."
    )
    slack_bot_token: SecretStr | None = Field(None, description="Bot token (xoxb-…) of the Slack app.")
    slack_api_url: str = Field("https://slack.com/api", description="Address of Slack's Web API.")
    slack_signing_secret: SecretStr | None = Field(
        None,
        description="The Slack app's signing secret: takes events at POST /api/slack/events. Unset: that address is closed.",
    )
    slack_app_token: SecretStr | None = Field(
        None,
        description="The Slack app's app-level token (xapp-…, scope connections:write): takes events over Socket Mode.",
    )
    slack_window_minutes: int = Field(
        30,
        ge=1,
        description="Messages outside of threads that follow each other within this many minutes are one document.",
    )
    slack_lookback: str = Field(
        "24h",
        pattern=r"^\d+[smhd]$",
        description="How far back each sync looks for edits and deletions in every channel.",
    )
    prune_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Deletions of more than this share of a root or channel wait for: concordance prune approve.",
    )
    prune_minimum: int = Field(5, ge=0, description="As many deletions in one sync never wait.")
    retry_seconds: Annotated[tuple[float, ...], NoDecode] = Field(
        (1.0, 5.0, 30.0), description="Waits before a passing fault of a source is tried again, in seconds."
    )

    sync_minutes: int = Field(10, ge=1, le=60, description="Minutes between scheduled syncs of a source.")
    alert_webhook_url: SecretStr | None = Field(
        None, description="Slack-compatible webhook that alerts are posted to; they are always logged."
    )
    evaluation_floor: float = Field(
        0.8,
        ge=0,
        le=1,
        description="Recall@10 on the question set below which the monthly evaluation alerts and its check fails.",
    )
    search_rate_limit: int = Field(100, ge=1, description="Searches a minute a user.")
    sign_in_failures: int = Field(60, ge=1, description="Failed sign-ins a minute from one address.")
    search_cache_seconds: int = Field(
        300, ge=0, description="How long candidates of a search are kept; 0 turns the cache off."
    )
    search_depth: int = Field(50, ge=10, le=500, description="Candidates taken from each leg.")
    fusion: Literal["weighted", "rrf", "dbsf", "minmax"] = Field(
        "weighted", description="Default fusion of the dense and the keyword leg."
    )
    dense_weight: float = Field(
        0.7, ge=0, le=1, description="Share of the dense leg in weighted fusion and RRF; the keyword leg has the rest."
    )
    keyword_engine: Literal["qdrant", "postgres"] = Field(
        "qdrant",
        description="What finds passages by their words: BM25 in the vector index, or Postgres full-text.",
    )
    query_expansion: Literal["off", "paraphrases", "hyde"] = Field(
        "off",
        description="What the language model adds to a hybrid or vector search: 2-4 other wordings, or a made-up answer (HyDE). "
        "Sends every such query to LLM_BASE_URL.",
    )
    query_expansion_seconds: float = Field(
        3, gt=0, le=60, description="Longest wait for that; then the search goes on without, and says so."
    )
    rerank_model: str | None = Field(
        None,
        description="Cross-encoder for searches that ask for `rerank`: its folder, or a hub's name that was downloaded once. Unset: none.",
    )
    rerank_depth: int = Field(
        30, ge=1, le=200, description="Passages that the cross-encoder reads, the best ones first."
    )
    rerank_threshold: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Reranked passages below this relevance are left out, unless the request has a threshold.",
    )
    agreement: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of a passage's fused score that its nearest neighbours among the candidates decide; 0 turns it off.",
    )
    acl_max_age: str = Field(
        "24h",
        pattern=r"^\d+[smhd]$",
        description="Hits whose permissions were last checked longer ago than this are held back.",
    )
    llm_model: str | None = Field(
        None, description="Language model that writes answers. Unset: answers quote the best sentences."
    )
    llm_base_url: str = Field(
        "https://api.openai.com/v1", description="Base URL of the OpenAI-compatible service with that model."
    )
    llm_api_key: SecretStr | None = Field(None, description="Key for that service.")
    llm_timeout_seconds: float = Field(60, gt=0, description="Longest wait for the language model, each attempt.")
    answer_gate: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Questions whose best passage scores lower are answered `No data found`. Default: calibrated for the "
        "bundled model (0.41); other models are judged by words alone until this is set.",
    )
    answer_context_tokens: int = Field(
        3000, ge=256, le=200_000, description="Most tokens of sources that the language model is given."
    )
    answer_cache_seconds: int = Field(
        86_400,
        ge=0,
        le=604_800,
        description="How long an answer of the language model is used again for the same question, caller and sources; "
        "up to 7 days, 0 turns it off.",
    )
    erase_after: str = Field(
        "7d",
        pattern=r"^\d+[smhd]$",
        description="How long the contents of a deleted document are kept before they are erased from every store.",
    )
    retention_answers: str = Field("365d", pattern=PATTERN, description="How long kept answers stay.")
    retention_questions: str = Field(
        "90d", pattern=PATTERN, description="How long questions that feedback proposed wait to be accepted."
    )
    retention_conversations: str = Field("90d", pattern=PATTERN, description="How long reported conversations stay.")
    retention_feedback: str = Field("365d", pattern=PATTERN, description="How long feedback stays.")
    retention_jobs: str = Field("90d", pattern=PATTERN, description="How long jobs and Dagster's runs stay.")
    retention_sync_errors: str = Field("30d", pattern=PATTERN, description="How long errors of syncs stay.")
    retention_audit: str = Field(
        "730d", pattern=PATTERN, description="How long the audit log and the trail of grants stay."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe events that are logged."
    )

    @field_validator("home")
    @classmethod
    def _absolute_home(cls, home: Path) -> Path:
        return home.expanduser().resolve()

    @field_validator("file_roots", mode="before")
    @classmethod
    def _read_roots(cls, value: Any) -> Any:
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("@"):
                path = Path(text[1:]).expanduser()
                try:
                    text = path.read_text(encoding="utf-8")
                except OSError as error:
                    raise ValueError(f"cannot read {path}: {error.strerror}") from error
            try:
                value = json.loads(text) if text else []
            except json.JSONDecodeError as error:
                raise ValueError(f"is not valid JSON: {error}") from error
        return value

    @field_validator("drive_roots", "retry_seconds", "allowed_hosts", "upload_share_domains", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("["):
            try:
                return json.loads(value)
            except json.JSONDecodeError as error:
                raise ValueError(f"is not valid JSON: {error}") from error
        return [part.strip() for part in value.split(",") if part.strip()]

    @field_validator("upload_share_domains")
    @classmethod
    def _plain_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(domain.lower().removeprefix("domain:") for domain in domains)
        for domain in plain:
            if "@" in domain or ":" in domain or ("." not in domain and domain != "public"):
                raise ValueError(f"must be a comma list of domains such as partner.example, or public; not {domain!r}")
        return plain

    @field_validator("drive_api_url", "slack_api_url")
    @classmethod
    def _without_slash(cls, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            raise ValueError(f"must begin with https:// (or http:// for a simulator), not {url!r}")
        return url.rstrip("/")

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, text: str) -> str:
        for part in text.split(","):
            try:
                ip_network(part.strip(), strict=False)
            except ValueError as error:
                raise ValueError(
                    f"must be a comma list of addresses and networks such as 10.0.0.0/8: {error}"
                ) from error
        return text

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key) < 32:
            raise ValueError(
                "must have at least 32 characters; make one with: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )
        return key

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        names = [root.name for root in self.file_roots]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"FILE_ROOTS names {name!r} twice; every root needs a name of its own")
        if self.llm_model is not None and self.llm_api_key is None and "api.openai.com" in self.llm_base_url:
            raise ValueError("LLM_MODEL needs LLM_API_KEY (or LLM_BASE_URL of a service that asks for none)")
        if self.query_expansion != "off" and self.llm_model is None:
            raise ValueError(f"QUERY_EXPANSION={self.query_expansion} needs LLM_MODEL")
        if (
            self.embedding_provider == "openai"
            and self.openai_api_key is None
            and "api.openai.com" in self.openai_base_url
        ):
            raise ValueError(
                "EMBEDDING_PROVIDER=openai needs OPENAI_API_KEY (or OPENAI_BASE_URL of a service that asks for none)"
            )
        return self

    @property
    def base_url(self) -> str:
        """Address people reach the HTTP interface at, without a trailing slash."""
        return (self.public_url or f"http://127.0.0.1:{self.http_port}").rstrip("/")

    @property
    def passfile(self) -> Path:
        """Password file of the embedded Postgres, readable by its owner alone."""
        return self.home / "postgres" / "pgpass"

    @property
    def postgres_dsn(self) -> str:
        """libpq URL of the database, without a password when Postgres is embedded (libpq reads it from `passfile`)."""
        if self.postgres_url is not None:
            return self.postgres_url.get_secret_value()
        return (
            f"postgresql://concordance@127.0.0.1:{self.postgres_port}/concordance?passfile={quote(str(self.passfile))}"
        )

    @property
    def qdrant_address(self) -> str:
        """URL of Qdrant's REST interface."""
        return (self.qdrant_url or f"http://127.0.0.1:{self.qdrant_port}").rstrip("/")

    @property
    def dagster_address(self) -> str:
        """URL of the Dagster webserver."""
        return (self.dagster_url or f"http://127.0.0.1:{self.dagster_port}").rstrip("/")

    @property
    def lake_address(self) -> str:
        """URL of the lake."""
        return (self.lake_url or (self.home / "lake").as_uri()).rstrip("/")

    @property
    def embedded_postgres(self) -> bool:
        """True if `up` runs Postgres."""
        return self.postgres_url is None

    @property
    def embedded_qdrant(self) -> bool:
        """True if `up` runs the vector server."""
        return self.qdrant_url is None


def setting_name(prefix: str, field: str) -> str:
    """Return the name of a setting without `CONCORDANCE_`, in lower case: `kinto_password`."""
    return f"{prefix.removeprefix('CONCORDANCE_')}{field}".lower()


def load(**overrides: Any) -> Settings:
    """Read and validate the settings. Raises `ConfigurationError` naming each wrong variable and what it should be."""
    return read(Settings, **overrides)


_S = TypeVar("_S", bound=BaseSettings)


def read(kind: type[_S], **overrides: Any) -> _S:
    """Read and validate settings of a class whose prefix begins with `CONCORDANCE_`. Raises as `load` does."""
    prefix = kind.model_config.get("env_prefix", "")
    if (missing := withheld()) is not None:  # the environment is complete, and what it lacks must not come from a file
        own = {name: missing.get(setting_name(prefix, name)) for name in kind.model_fields}
        overrides = {"_env_file": None, **{name: value for name, value in own.items() if value}, **overrides}
    try:
        return kind(**overrides)
    except ValidationError as error:
        lines: list[str] = []
        for fault in error.errors(include_input=False, include_url=False):
            name = f"{prefix}{''.join(str(part) for part in fault['loc'][:1])}".upper().rstrip("_")
            where = ".".join(str(part) for part in fault["loc"][1:])
            lines.append(f"{name}{' (' + where + ')' if where else ''}: {fault['msg'].removeprefix('Value error, ')}")
        raise ConfigurationError("The settings are not right:\n  " + "\n  ".join(lines)) from None
