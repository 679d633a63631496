"""Embeddings from any service with an OpenAI-compatible API (OpenAI, Azure, LiteLLM, vLLM).

The SDK retries three times, with exponential backoff and jitter, on rate limits, server errors, timeouts and dropped
connections, and honours a `Retry-After` of up to two minutes. Responses are validated: count, order, length, and that
every number is finite. Vendor errors are mapped here.
"""

import base64
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resources import http_clients
from resources.core.errors import ConcordanceError, ConfigurationError, ServiceUnavailableError
from resources.core.ports import Vectors
from resources.embedding.prompts import NO_PROMPTS, suffix
from resources.settings.limits import Prompts

DEFAULT_MODEL = "text-embedding-3-small"
RETRIES = 3
CONCURRENCY = 4
"""Number of concurrent requests."""
LEAST_TEXTS = 16
"""Texts of a request, so that few texts are not spread over requests that each take about as long as one."""
FAILED_TEXTS = 16
"""Texts in a row, in any requests, that cannot be embedded, after which the service is asked for one of ours as long as these: they may all
be of one document."""
REQUEST_TOKENS = 300_000
"""Maximum total tokens of one request. Source: https://platform.openai.com/docs/api-reference/embeddings/create"""
_CHARACTERS_A_TOKEN = 2
"""A conservative estimate: English has about four, so a request stays below `REQUEST_TOKENS` for dense text too."""
_TOKENS_A_CHARACTER = 2
"""Of characters beyond ASCII. Most alphabets and Chinese have fewer, some scripts such as Khmer more."""

KNOWN: dict[str, tuple[int, int, float]] = {
    "text-embedding-3-small": (1536, 8191, 0.02),
    "text-embedding-3-large": (3072, 8191, 0.13),
}
"""Model → dimensions, window in tokens, US dollars per million tokens.

Source: https://platform.openai.com/docs/guides/embeddings and https://openai.com/api/pricing/
"""

SHORT_TEXT = 200
"""Characters of a text that no service refuses for its length."""
_REFUSED = (400, 413, 422)
"""Statuses of services for a text that is too long."""
_CODE = re.compile(r"[A-Za-z][\w.-]{0,60}")
_FAILED = 500
"""Status of a service that fails on a text; one that is overloaded or away answers with others."""


PROBE = "dimensions"
"""A text of ours that every service embeds. Only what a service says of it is repeated: that may quote the text."""
_PROSE = "This is a short text. "
"""Likewise, repeated to the length of others. It has a token for each four bytes, about as prose of any language has."""


class RefusedTextsError(ConfigurationError):
    """The service refuses these texts, or every request."""


class FailedTextsError(ServiceUnavailableError):
    """The service fails on these texts, or on every request."""


class OpenAICompatible:
    """One service and model. Thread-safe."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        model: str | None = None,
        dimensions: int | None = None,
        window: int | None = None,
        batch: int = 100,
        price: float | None = None,
        timeout: float = 60.0,
        query_timeout: float = 10.0,
        prompts: Prompts = NO_PROMPTS,
    ) -> None:
        from openai import DefaultHttpxClient, OpenAI

        self._name = model or DEFAULT_MODEL
        self._prompts = prompts
        self.model = self._name + suffix(prompts)
        own, limit, cost = KNOWN.get(self._name, (None, 8191, None))
        self._asked = dimensions if dimensions != own else None
        self._known_dimensions = dimensions or own
        self.window = window or limit
        self.price_per_million = price if price is not None else cost
        self._batch = batch
        self._query_timeout = query_timeout
        self._query_tokens = 0
        self._failed_texts = 0
        """Since the last text that was embedded."""
        self._lock = threading.Lock()
        self._url = base_url
        self._client = OpenAI(
            base_url=base_url,
            api_key=api_key or "none",
            max_retries=RETRIES,
            timeout=timeout,
            http_client=DefaultHttpxClient(**http_clients.options(base_url)),
        )

    @property
    def dimensions(self) -> int:
        """Length of a vector; for an unknown model, the service is asked once."""
        if self._known_dimensions is None:
            self._known_dimensions = self._request([PROBE], self._prompts.passage_type)[0].shape[1]
        return self._known_dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order. Raises `ServiceUnavailableError` or `ConfigurationError`."""
        rows, _ = self.embed_counted(texts)
        if np.isnan(rows).any():
            raise self._unusable()
        return rows

    def embed_counted(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Return one row per text, in order, and the tokens that the service billed. NaN: it cannot embed this text, but others."""
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32), 0
        with self._lock:
            if self._failed_texts >= FAILED_TEXTS:  # the call before raised
                self._failed_texts = 0
        batches = self._batches(texts)
        if len(batches) == 1:
            return self._passages(batches[0])
        with ThreadPoolExecutor(min(CONCURRENCY, len(batches))) as pool:
            answers = list(pool.map(self._passages, batches))
        return np.concatenate([rows for rows, _ in answers]), sum(tokens for _, tokens in answers)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one query, shape (dimensions,); only one retry, because a user is waiting.

        Raises `RefusedTextsError` for one that the service cannot embed, and `ServiceUnavailableError` or `ConfigurationError`.
        """
        prompts = self._prompts
        options: dict[str, Any] = {"input_type": prompts.query_type, "timeout": self._query_timeout}
        try:
            rows, tokens = self._request([prompts.query + text], retries=1, **options)
        except FailedTextsError as error:
            if text == PROBE:
                raise
            self._probe(error, retries=0, **options)
            raise RefusedTextsError(str(error)) from None
        with self._lock:
            self._query_tokens += tokens
        if np.isnan(rows).any():
            raise self._unusable()
        return rows[0]

    def take_query_tokens(self) -> int:
        """Return the tokens of queries since the last call."""
        with self._lock:
            tokens, self._query_tokens = self._query_tokens, 0
        return tokens

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the texts of each request: as many requests as are made at once, if they are not too small or too large."""
        most = min(self._batch, max(LEAST_TEXTS, -(-len(texts) // CONCURRENCY)))
        batches: list[list[str]] = [[]]
        total = 0
        for text in texts:
            tokens = _most_tokens(text)
            total += tokens
            if len(batches[-1]) == most or total > REQUEST_TOKENS:
                batches.append([])
                total = tokens
            batches[-1].append(text)
        return [batch for batch in batches if batch]

    def _passages(self, texts: list[str], whole: ConcordanceError | None = None) -> tuple[Vectors, int]:
        """Embed the texts of a request. A text that the service refuses, most likely for its length, is embedded in parts.

        The row of a text that cannot be embedded is NaN. Raises if `FAILED_TEXTS` cannot one after the other and neither can one of ours,
        or not even a short text. `whole`: the error of the request that these are a part of.
        """
        error: ConcordanceError = self._unusable()
        prompted = [self._prompts.passage + text for text in texts]
        retries = 0 if isinstance(whole, FailedTextsError) else RETRIES
        found: tuple[Vectors, int] | None = None
        try:
            found = self._request(prompted, self._prompts.passage_type, retries=retries)
        except (RefusedTextsError, FailedTextsError) as caught:
            error = caught
        if not isinstance(whole, type(error)) and (found is None or np.isnan(found[0]).all()):
            self._probe(error)  # the first failure of its kind
        if found is None and len(texts) > 1:
            half = len(texts) // 2
            (first, used), (second, more) = self._passages(texts[:half], error), self._passages(texts[half:], error)
            return np.concatenate([first, second]), used + more
        rows, tokens = found or self._in_parts(texts[0], error)
        self._count(rows, error, max(len(text.encode()) for text in texts))
        return rows, tokens

    def _in_parts(self, text: str, error: ConcordanceError) -> tuple[Vectors, int]:
        """Embed a text in two parts if it may be too long, and these likewise: NaN as soon as one cannot be embedded."""
        rows: list[Vectors] = []
        tokens = 0
        parts = _halves(text) if isinstance(error, RefusedTextsError) and len(text) >= SHORT_TEXT else []
        for part in parts:
            try:
                row, used = self._request([self._prompts.passage + part], self._prompts.passage_type)
            except (RefusedTextsError, FailedTextsError) as caught:
                if isinstance(caught, FailedTextsError):
                    self._probe(caught)
                row, used = self._in_parts(part, caught)
            rows.append(row)
            tokens += used
            if np.isnan(row).any():
                break
        if len(rows) < 2 or np.isnan(rows).any():
            return np.full((1, self.dimensions), np.nan, dtype=np.float32), tokens
        mean = np.average(rows, axis=0, weights=[len(part) for part in parts]).astype(np.float32)
        return mean / np.float32(np.linalg.norm(mean)), tokens

    def _count(self, rows: Vectors, error: ConcordanceError, size: int) -> None:
        """Count texts that cannot be embedded, of at most `size` bytes. Raises `error` after `FAILED_TEXTS` in a row if the service cannot
        embed one of ours either: as long as these or, if it refuses them, one that is not too long.
        """
        doubtful = False
        with self._lock:
            for lacking in np.isnan(rows[:, 0]):
                self._failed_texts = self._failed_texts + 1 if lacking else 0
                doubtful = doubtful or self._failed_texts >= FAILED_TEXTS
        if doubtful:
            size = min(size, SHORT_TEXT) if isinstance(error, RefusedTextsError) else size
            self._probe(error, (_PROSE * (size // len(_PROSE) + 1))[:size])
            with self._lock:
                self._failed_texts = 0

    def _probe(self, error: ConcordanceError, text: str = PROBE, **options: Any) -> None:
        """Embed a text that no service fails on. Raises `error` if this one does: then it is not for the texts that failed."""
        options.setdefault("input_type", self._prompts.passage_type)
        try:
            rows, _ = self._request([text], **options)
        except type(error) as found:
            raise found from None  # it says why
        except ConcordanceError:
            raise error from None
        if np.isnan(rows).any():
            raise error

    def _request(
        self, texts: list[str], input_type: str | None, *, timeout: float | None = None, retries: int = RETRIES
    ) -> tuple[Vectors, int]:
        import openai

        client = self._client.with_options(max_retries=retries)
        if timeout is not None:
            client = client.with_options(timeout=timeout)
        extra: dict[str, Any] = {"dimensions": self._asked} if self._asked else {}
        if input_type is not None:
            extra["extra_body"] = {"input_type": input_type}
        try:
            # OpenAI rejects an empty text but accepts a space
            answer = client.embeddings.create(
                model=self._name, input=[text or " " for text in texts], encoding_format="base64", **extra
            )
        except openai.OpenAIError as error:
            ours = texts in ([PROBE], [self._prompts.query + PROBE], [self._prompts.passage + PROBE])
            raise self._explained(error, ours=ours) from (error if ours else None)
        rows = self._checked(answer.data, len(texts))
        return rows, int(answer.usage.prompt_tokens) if answer.usage else 0

    def _checked(self, data: Sequence[Any], count: int) -> Vectors:
        ordered = sorted(data, key=lambda row: row.index)
        if [row.index for row in ordered] != list(range(count)):
            raise self._wrong(f"returned {len(data)} embeddings for {count} texts, or wrong indices")
        rows = [_decoded(row.embedding) for row in ordered]
        expected = self._known_dimensions or len(rows[0])
        for row in rows:
            if len(row) != expected:
                raise self._wrong(
                    f"returned a vector of {len(row)} numbers where {expected} were expected; "
                    "check CONCORDANCE_EMBEDDING_MODEL and CONCORDANCE_EMBEDDING_DIMENSIONS"
                )
        vectors = np.stack(rows)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        norms[~np.isfinite(norms) | (norms == 0)] = np.nan
        return vectors / norms

    def _unusable(self) -> ConfigurationError:
        return self._wrong("returned a vector with NaN, infinity or only zeros")

    def _wrong(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"The embedding service at {self._url} (model {self.model}) {what}.")

    def _explained(self, error: Exception, *, ours: bool) -> ConcordanceError:
        import openai

        where = f"The embedding service at {self._url}"
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            return ConfigurationError(
                f"{where} rejects the key ({error.status_code}): check CONCORDANCE_OPENAI_API_KEY."
            )
        if isinstance(error, openai.RateLimitError):
            after = _retry_after(error.response.headers) or 1.0
            return ServiceUnavailableError(
                f"{where} limits the rate of requests; the next sync continues from here.", after
            )
        if isinstance(error, openai.InternalServerError):
            failed = FailedTextsError if error.status_code == _FAILED else ServiceUnavailableError
            return failed(f"{where} fails ({error.status_code}); the next sync continues from here.")
        if isinstance(error, openai.APIStatusError):
            refused = RefusedTextsError if error.status_code in _REFUSED else ConfigurationError
            return refused(
                f"{where} rejects the request ({_said(error, whole=ours)}): check "
                "CONCORDANCE_OPENAI_BASE_URL, "
                "CONCORDANCE_EMBEDDING_MODEL and CONCORDANCE_EMBEDDING_DIMENSIONS."
            )
        if isinstance(error, openai.APITimeoutError):
            return ServiceUnavailableError(f"{where} took too long to answer; the next sync continues from here.")
        return ServiceUnavailableError(f"{where} does not answer: check CONCORDANCE_OPENAI_BASE_URL and the network.")


def _said(error: Any, *, whole: bool) -> str:
    """Return a response's status, and its code or, if it cannot quote a text of others, all that it says."""
    codes = [code for code in (str(error.code), str(error.type)) if _CODE.fullmatch(code) and code != "None"]
    said = error.message[:200] if whole else "".join(codes[:1])
    return f"{error.status_code}: {said}" if said else str(error.status_code)


def _halves(text: str) -> list[str]:
    """Divide a text, at white space where there is some near its middle."""
    middle = len(text) // 2
    at = text.find(" ", middle, middle + middle // 2)
    at = middle if at < 0 else at
    return [text[:at], text[at:]]


def _most_tokens(text: str) -> int:
    """Return how many tokens a text may have."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", errors="ignore"))
    return plain // _CHARACTERS_A_TOKEN + (len(text) - plain) * _TOKENS_A_CHARACTER


def _decoded(embedding: Any) -> NDArray[np.float32]:
    """Decode base64 of little-endian float32, or plain numbers from services without base64 support."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), dtype="<f4").astype(np.float32)
    return np.asarray(embedding, dtype=np.float32)


def _retry_after(headers: Any) -> float | None:
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None  # absent, or a date: the caller uses its own backoff
