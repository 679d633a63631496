"""Structured logs: one JSON line per event on standard error, with emails and phone numbers masked, and without quoted rows.

Call `configure` once per process; modules log with `logger(NAME)`. Records of standard-library loggers (servers, clients)
get the same format.
"""

import logging
import re
import sys
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any, Literal, cast

import structlog

from resources import tracing

Level = Literal["debug", "info", "warning", "error"]

_EMAIL = re.compile(r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(
    r"(?<![\w./:-])(?:\+\d[\d ()./-]{7,18}|\(\d{2,5}\)[\d -]{5,15}|0\d{1,5} ?/ ?\d[\d -]{4,13}|\d{3}\.\d{3}\.\d{3}|\d[\d -]{7,18})"
    r"\d(?![\w:-]|\.\d)"
)
"""With a plus, an area code in parentheses or before a slash, or groups of digits. With dots alone, of three, three
and four digits: others are those of addresses, versions, dates and amounts."""
_NUMBER = re.compile(r"\d+|[1-9]\d{0,2}(?: \d{3})+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_QUOTED = re.compile(
    r"\n[ |]*(?:DETAIL|CONTEXT): .*?(?=\n\s*\n[ |]*(?:The above exception was|During handling of the above)|\Z)",
    re.DOTALL,
)
"""What Postgres adds to an error: it may quote the row that it refused. In a stack trace, other exceptions follow."""
_NEVER_MASKED = frozenset(
    {
        "ts",
        "level",
        "service",
        "job_id",
        "doc_id",
        "doc_ids",
        "query_id",
        "event_key",
        "error_id",
        "chunk_id",
        "run_id",
        "trace_id",
    }
)
_NOISY = ("httpx", "httpcore", "qdrant_client", "psycopg.pool", "asyncio", "alembic", "sqlalchemy")


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a component, such as `sync`; events are words with underscores, everything else is a key."""
    return structlog.get_logger(name)


def mask(text: str) -> str:
    """Return the text with emails and phone numbers replaced, and without rows that an error of Postgres quotes."""
    text = _QUOTED.sub("", text)
    return _PHONE.sub(_mask_phone, _EMAIL.sub("[email]", text))


def _mask_phone(match: re.Match[str]) -> str:
    text = match.group()
    digits = sum(character.isdigit() for character in text)
    return "[phone]" if 9 <= digits <= 15 and not _NUMBER.fullmatch(text) and not _DATE.search(text) else text


def _masked(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _masked(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(inner) for inner in cast("Collection[Any]", value)]
    return mask(str(value))  # an error, for example, which would be written as a text without it


def mask_event(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask every value of an event except ids and the time (a structlog processor). The action of a record of others is its message."""
    return {key: value if key in _NEVER_MASKED else _masked(value) for key, value in event.items()}


def configure(level: Level = "info", service: str = "concordance", worker: int | None = None) -> None:
    """Send all logs of this process to standard error as JSON lines, and its traces where the environment says.

    A second call replaces the configuration of the logs.

    `worker` is the number of this process if the service has several.
    """
    tracing.configure(service)
    log_to_stderr(level, service, worker)


def log_to_stderr(level: Level, service: str, worker: int | None = None) -> None:
    """Do as `configure`, without traces: for a command, which would wait for a collector at its end."""

    def name_service(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("service", service)
        if worker is not None:
            event.setdefault("worker", worker)
        return event

    def name_trace(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if (trace_id := tracing.trace_id()) is not None:
            event.setdefault("trace_id", trace_id)
        return event

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        name_service,
        name_trace,
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("action"),
        mask_event,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
