"""Checks of the models for `concordance doctor`: each is called once, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from resources.core.breaker import Breaker
from resources.core.checks import Check
from resources.core.errors import ConcordanceError
from resources.settings import Settings

CALL_SECONDS = 20.0
QUESTION, PASSAGE = "Is the model there?", "The model is there."


def embedding(settings: Settings, *, registry: bool) -> Iterator[Check]:
    """Embed a query, and compare its length with the index if there is a `registry` to ask."""
    from resources.embedding import check_dimensions, embedder
    from resources.embedding.openai_compatible import PROBE

    model = embedder(settings)
    vector = Breaker("The embedding model").call(lambda: model.embed_query(PROBE), CALL_SECONDS)
    found = f"{model.model}: {len(vector)} dimensions, window {model.window} tokens"
    if registry and (indexed := _indexed_dimensions(settings, model.model)) is not None:
        check_dimensions(model.model, len(vector), indexed)
    yield Check("embedder", True, found)


def reranker(settings: Settings) -> Iterator[Check]:
    """Score one passage, if there is a reranker."""
    from resources.embedding.cross_encoder import CrossEncoder

    if settings.rerank_model is None:
        yield Check("reranker", True, "none is set (CONCORDANCE_SEARCH__RERANK_MODEL): results keep their fused order")
        return
    model = CrossEncoder(settings.rerank_model, settings.home / "models")
    score = Breaker("The reranker").call(lambda: model.score(QUESTION, [PASSAGE]), CALL_SECONDS)[0]
    yield Check("reranker", True, f"{model.model} scores a passage ({score:.2f})")


def language_model(settings: Settings) -> Iterator[Check]:
    """Have a word written, if there is a language model."""
    from serving.answers import model
    from serving.search.quoting import ChatMessage

    found = model.language_model(settings.model_copy(update={"llm_timeout_seconds": CALL_SECONDS}))
    if found is None:
        yield Check("language model", True, "none is set (CONCORDANCE_LLM_MODEL): answers are quotes")
        return

    async def asked() -> str:
        try:
            return await found.complete(
                [ChatMessage(role="user", content="Reply with the word: ready")], person="doctor"
            )
        finally:
            await found.close()

    try:
        text = asyncio.run(asked())
    except ConcordanceError as error:
        remedy = "Check CONCORDANCE_LLM_MODEL, CONCORDANCE_LLM_BASE_URL and CONCORDANCE_LLM_API_KEY; answers are quotes meanwhile."
        yield Check("language model", False, str(error), remedy)
        return
    yield Check("language model", True, f"{found.name} responds with {len(text)} characters")


def budget(settings: Settings) -> Iterator[Check]:
    """Compare what embedding has cost this month with its limit."""
    from resources.embedding.budget import Budget, month_key
    from resources.stores.postgres import session
    from sql.sync import Collections

    if settings.embedding_budget is None:
        yield Check("budget", True, "embedding has no monthly limit (CONCORDANCE_LIMITS__EMBEDDING_BUDGET)")
        return
    with session(settings.postgres_dsn) as connection:
        spent = Collections(connection).usage(month=month_key(datetime.now(UTC)))
    used = f"${spent:.2f} of ${settings.embedding_budget:.2f} used this month"
    if not Budget(settings.embedding_budget, spent).warn or spent == 0:
        yield Check("budget", True, used)
        return
    stops = "syncs stop embedding at the limit" if settings.embedding_budget_stop else "syncs go on beyond the limit"
    remedy = "Raise CONCORDANCE_LIMITS__EMBEDDING_BUDGET, or wait for the next month."
    yield Check("budget", False, f"{used}; {stops}", remedy)


def _indexed_dimensions(settings: Settings, model: str) -> int | None:
    """Return the length of the vectors of the active collection, if it is of this model."""
    from resources.stores.postgres import session
    from sql.sync import Collections

    with session(settings.postgres_dsn) as connection:
        active = Collections(connection).active_collection()
    return active.dimensions if active is not None and active.model == model else None
