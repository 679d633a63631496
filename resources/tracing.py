"""Traces in OpenTelemetry's format, exported over OTLP/HTTP where `OTEL_EXPORTER_OTLP_ENDPOINT` says.

Without that variable nothing of OpenTelemetry is imported, and a span costs a function call. A span never holds a query, a text, a name
or an email: its attributes are counts, modes and names of sources, and of an error only the type. The other `OTEL_` variables apply as the
specification has them: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACEPARENT = "traceparent"
"""Header, and key of a carrier. Source: https://www.w3.org/TR/trace-context/#traceparent-header"""
FLUSH_MILLISECONDS = 2_000

Attribute = str | int | float | bool


class _State:
    """The tracer of this process, once `configure` has made it."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None


class Described:
    """A span that can be described further; without a span, nothing happens."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def set(self, **attributes: Attribute) -> None:
        """Set attributes; their names get the prefix `concordance.`."""
        if self._span is not None:
            self._span.set_attributes({f"concordance.{name}": value for name, value in attributes.items()})

    def response(self, method: str, route: str, status: int) -> None:
        """Describe the request that the span is of. Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/"""
        if self._span is not None:
            self._span.update_name(f"{method} {route}".strip())
            self._span.set_attributes(
                {"http.request.method": method, "http.route": route, "http.response.status_code": status}
            )

    def failed(self, error: BaseException) -> None:
        """Mark the span as that of a block that ended with this error, of which only the type is recorded."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR))


_OFF: AbstractContextManager[Described] = nullcontext(Described())


def wanted() -> bool:
    """Return True if the environment names a collector."""
    return any(os.environ.get(name) for name in ENDPOINTS) and os.environ.get("OTEL_SDK_DISABLED", "") != "true"


def configure(service: str) -> None:
    """Export spans of this process as those of a service, if the environment names a collector. Idempotent."""
    if _State.tracer is not None or not wanted():
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: f"concordance-{service}"}
    _State.provider = TracerProvider(resource=Resource.create(named))
    _State.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _State.tracer = _State.provider.get_tracer("concordance")


def stop() -> None:
    """Export what is left, and trace no more."""
    provider, _State.provider, _State.tracer = _State.provider, None, None
    if provider is not None:
        provider.shutdown()


def flush() -> None:
    """Export what has ended, waiting two seconds at most."""
    if _State.provider is not None:
        _State.provider.force_flush(FLUSH_MILLISECONDS)


def on() -> bool:
    """Return True if spans of this process are exported."""
    return _State.tracer is not None


def span(name: str, **attributes: Attribute) -> AbstractContextManager[Described]:
    """Return a span for a block, within the current one. Attributes get the prefix `concordance.`."""
    return _OFF if _State.tracer is None else _spanning(_State.tracer, name, attributes)


def root(name: str, carrier: Mapping[str, str], **attributes: Attribute) -> AbstractContextManager[Described]:
    """Return a span for a block, below the one of another process that the carrier names, if it names one."""
    return _OFF if _State.tracer is None else _spanning(_State.tracer, name, attributes, carrier)


def apart(name: str, **attributes: Attribute) -> AbstractContextManager[Described]:
    """Return a span for a block of a generator: spans that begin while it waits for its caller are not within it."""
    return _OFF if _State.tracer is None else _spanning(_State.tracer, name, attributes, current=False)


def carrier() -> dict[str, str]:
    """Return what continues the current trace in another process: a `traceparent`, or nothing."""
    if _State.tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    return {name: value for name, value in found.items() if name == TRACEPARENT}


def trace_id() -> str | None:
    """Return the id of the current trace as 32 hexadecimal digits; None without one."""
    if _State.tracer is None:
        return None
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    return format(context.trace_id, "032x") if context.is_valid else None


def in_context(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return the work for another thread, in which it continues the current trace."""
    return work if _State.tracer is None else partial(copy_context().run, work)


@contextmanager
def _spanning(
    tracer: Tracer,
    name: str,
    attributes: Mapping[str, Attribute],
    carrier: Mapping[str, str] | None = None,
    *,
    current: bool = True,
) -> Generator[Described]:
    from opentelemetry.trace import SpanKind, use_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = None if carrier is None else TraceContextTextMapPropagator().extract(carrier)
    made = tracer.start_span(name, context, SpanKind.INTERNAL if carrier is None else SpanKind.SERVER)
    found = Described(made)
    found.set(**attributes)
    try:
        # what an error says may quote a document, so it is not recorded
        with use_span(made, record_exception=False, set_status_on_exception=False) if current else nullcontext():
            yield found
    except BaseException as error:
        found.failed(error)
        raise
    finally:
        made.end()
