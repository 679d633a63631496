"""How the client handles a service that limits, fails, is slow or returns nonsense, over real HTTP."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import numpy as np
import pytest

from resources.core.breaker import UnresponsiveError
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.embedding.openai_compatible import (
    CONCURRENCY,
    FAILED_TEXTS,
    LEAST_TEXTS,
    PROBE,
    RETRIES,
    OpenAICompatible,
    RefusedTextsError,
)
from resources.embedding.prompts import has_prompts
from resources.settings.limits import Prompts
from serving.search.remote import for_searches
from tests.fixtures.openai_server import OpenAIServer, Rows, bag_of_words

SOON = {"retry_after_ms": "1"}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def client(server: OpenAIServer, key: str | None = None, **options: object) -> OpenAICompatible:
    return OpenAICompatible(server.url, key, **{"model": "m", "batch": 2, **options})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [(20, [4, 16]), (128, [32] * 4), (401, [1, *[100] * 4])],
)
def test_texts_are_spread_over_the_requests_that_are_made_at_once(
    server: OpenAIServer, texts: int, sizes: list[int]
) -> None:
    """A service that takes a time for each text answers four requests of 32 sooner than one of 100 and one of 28."""
    client(server, batch=100).embed([f"text {number}" for number in range(texts)])
    assert sorted(len(request["input"]) for request in server.requests) == sizes


def test_batches_are_as_large_as_the_setting_says_and_keep_their_order(server: OpenAIServer) -> None:
    texts = [f"text{number} unique{number}" for number in range(7)]
    rows, tokens = client(server).embed_counted(texts)
    assert sorted(len(request["input"]) for request in server.requests) == [1, 2, 2, 2]
    assert tokens == 14
    for row, text in zip(rows, texts, strict=True):
        expected = bag_of_words(text, 64)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_few_requests_are_on_their_way_at_once(server: OpenAIServer) -> None:
    client(server, batch=1).embed([f"t{number}" for number in range(40)])
    assert 1 <= server.at_once <= CONCURRENCY


@pytest.mark.parametrize("text", ["x" * 250_000, "ខ" * 62_500], ids=["ASCII", "Khmer"])
def test_long_texts_make_smaller_requests(server: OpenAIServer, text: str) -> None:
    client(server, batch=100).embed([text] * 5)
    assert sorted(len(request["input"]) for request in server.requests) == [1, 2, 2]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_three_retries_carry_over_a_passing_fault(server: OpenAIServer, status: int) -> None:
    server.fail(status, times=3, **SOON)
    assert client(server).embed(["a"]).shape == (1, 64)
    assert len(server.requests) == 4


def test_retry_after_is_obeyed(server: OpenAIServer) -> None:
    server.fail(429, retry_after="1")
    client(server).embed(["a"])
    assert server.times[1] - server.times[0] >= 1


@pytest.mark.parametrize(("status", "said"), [(429, "limits the rate"), (502, "fails (502)")])
def test_a_fault_that_stays_is_reported_as_unavailable(server: OpenAIServer, status: int, said: str) -> None:
    server.fail(status, times=4, **SOON)
    with pytest.raises(ServiceUnavailableError) as caught:
        client(server).embed(["a"])
    assert said in str(caught.value)
    assert len(server.requests) == 4


def test_a_long_retry_after_is_handed_to_the_caller(server: OpenAIServer) -> None:
    server.fail(429, retry_after="600")
    with pytest.raises(ServiceUnavailableError) as caught:
        client(server).embed(["a"])
    assert caught.value.retry_after == 600
    assert len(server.requests) == 1


def test_a_query_waits_for_one_retry_only(server: OpenAIServer) -> None:
    server.fail(500, times=4, **SOON)
    with pytest.raises(ServiceUnavailableError):
        client(server).embed_query("a")
    assert [one["input"] for one in server.requests] == [["a"], ["a"], [PROBE]]


def test_searches_go_on_while_a_service_fails_on_some_queries_and_rest_once_it_fails_on_ours(
    server: OpenAIServer,
) -> None:
    server.fails_on = "otter"
    searches = for_searches(client(server))
    for number in range(3):
        with pytest.raises(RefusedTextsError, match="fails \\(500\\)"):
            searches.embed_query(f"otter {number}")
    assert searches.embed_query("heron").shape == (64,)
    server.fails_on = ""
    for _ in range(2):
        with pytest.raises(ServiceUnavailableError, match="fails \\(500\\)"):
            searches.embed_query("heron")
    with pytest.raises(UnresponsiveError):
        searches.embed_query("heron")


def test_a_slow_service_is_given_up(server: OpenAIServer) -> None:
    server.hold()
    with pytest.raises(ServiceUnavailableError, match="too long"):
        client(server, query_timeout=0.05).embed_query("a")


def test_a_service_that_is_not_there(server: OpenAIServer) -> None:
    with pytest.raises(ServiceUnavailableError, match="CONCORDANCE_OPENAI_BASE_URL"):
        OpenAICompatible("http://127.0.0.1:1/v1", None, model="m").embed_query("a")


def test_a_refused_key_names_the_variable_and_is_not_retried() -> None:
    with OpenAIServer(api_key="right") as server:
        with pytest.raises(ConfigurationError, match="CONCORDANCE_OPENAI_API_KEY") as caught:
            client(server, "wrong").embed(["a"])
        assert "wrong" not in str(caught.value)
        assert len(server.requests) == 1
        assert client(server, "right").embed(["a"]).shape == (1, 64)


def test_a_refused_request_names_the_settings(server: OpenAIServer) -> None:
    server.fail(404)
    with pytest.raises(ConfigurationError, match="CONCORDANCE_EMBEDDING_MODEL"):
        client(server).embed(["a"])


@pytest.mark.parametrize("refusal", ["unknown", "longest"])
def test_what_a_service_says_of_our_text_alone_is_repeated(server: OpenAIServer, refusal: str) -> None:
    """It may quote the text, and errors are logged and stored."""
    secret = "salary of ann"
    setattr(server, refusal, True if refusal == "unknown" else 0)
    asked = client(server)
    for ask in (lambda: asked.embed([secret]), lambda: asked.embed_query(secret)):
        with pytest.raises(ConfigurationError, match="CONCORDANCE_EMBEDDING_MODEL") as caught:
            ask()
        assert secret not in "".join(traceback.format_exception(caught.value))
    if refusal == "unknown":
        assert "404: model_not_found)" in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"\['dimensions'\]|at most 0 tokens"):
        asked.embed_query(PROBE)


def test_a_text_that_the_service_refuses_is_embedded_in_parts_and_stops_no_other() -> None:
    """Its window may be smaller than the setting says, and it counts tokens with words of its own."""
    long = " ".join(f"word{number} of the otter" for number in range(40))
    texts = ["an otter sleeps", long, "a heron waits", "a lemur eats figs"]
    with OpenAIServer(longest=50) as server:
        rows, tokens = client(server, batch=100).embed_counted(texts)
        alone = client(server).embed(["an otter sleeps", "a heron waits", "a lemur eats figs"])
    np.testing.assert_allclose(rows[[0, 2, 3]], alone, atol=1e-6)
    expected = bag_of_words(long, 64)
    assert float(rows[1] @ expected) / np.linalg.norm(expected) > 0.98
    assert float(np.linalg.norm(rows[1])) == pytest.approx(1.0)
    assert tokens == sum(len(text.split()) for text in texts)


def test_a_service_that_refuses_every_text_is_asked_a_few_times(server: OpenAIServer) -> None:
    server.fail(400, times=1000)
    with pytest.raises(ConfigurationError, match="CONCORDANCE_EMBEDDING_MODEL"):
        client(server, batch=100).embed(["the otter of the river sleeps until noon " * 40] * 100)
    assert len(server.requests) < 100


def test_a_text_that_the_service_fails_on_costs_only_itself(server: OpenAIServer) -> None:
    texts = [f"otter {number}" for number in range(20)]
    server.fails_on = "otter 7"
    rows, tokens = client(server).embed_counted(texts)
    lacking = np.isnan(rows).all(axis=1)
    assert [texts[place] for place in np.flatnonzero(lacking)] == ["otter 7"]
    assert tokens == 2 * 19
    np.testing.assert_allclose(np.linalg.norm(rows[~lacking], axis=1), 1.0, atol=1e-6)
    assert np.isnan(client(server).embed_counted(["otter 7"])[0]).all()
    with pytest.raises(ConfigurationError, match="NaN"):
        client(server).embed(["otter 7"])


def test_a_service_that_fails_on_every_text_but_a_short_one_is_away(server: OpenAIServer) -> None:
    """As with too little memory for texts of their length."""
    server.fails_on = " "
    texts = [f"otter {number}" for number in range(LEAST_TEXTS)]
    with pytest.raises(ServiceUnavailableError, match="fails \\(500\\)"):
        client(server, batch=100).embed_counted(texts)
    server.fails_on = None
    server.twist(_nan)
    with pytest.raises(ConfigurationError, match="NaN"):
        client(server, batch=100).embed_counted(texts)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_texts_that_fail_one_after_the_other_are_the_fault_of_a_service_that_fails_on_ours(
    server: OpenAIServer, batch: int
) -> None:
    """In whichever requests they are; what was embedded in between clears it."""
    model = client(server, batch=batch)
    few, good = [f"otter {number}" for number in range(FAILED_TEXTS - 1)], ["heron"]
    server.fails_on = " "
    for texts in (few, good, few):
        rows, _ = model.embed_counted(texts)
        assert np.isnan(rows).all() == (texts is few)
    with pytest.raises(ServiceUnavailableError, match="fails \\(500\\)"):
        model.embed_counted(few[:1])
    assert np.isnan(model.embed_counted(few)[0]).all(), "the next sync begins anew"


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_texts_that_fail_one_after_the_other_are_at_fault_if_the_service_embeds_one_of_ours(
    server: OpenAIServer, batch: int
) -> None:
    server.fails_on = "otter"
    texts = [f"otter {number}" for number in range(3 * FAILED_TEXTS)]
    rows, _ = client(server, batch=batch).embed_counted([*texts, "a heron"])
    assert np.isnan(rows[:-1]).all()
    assert not np.isnan(rows[-1]).any()


def test_a_service_that_refuses_all_but_a_short_text_is_asked_a_few_times() -> None:
    with OpenAIServer(longest=1) as server:
        with pytest.raises(ConfigurationError, match="CONCORDANCE_EMBEDDING_MODEL"):
            client(server, batch=100).embed_counted(["the otter of the river sleeps until noon " * 40] * 100)
        assert len(server.requests) < 300


def test_a_text_of_which_no_part_can_be_embedded_is_asked_for_a_few_times() -> None:
    with OpenAIServer(longest=1) as server:
        rows, _ = client(server).embed_counted(["the otter of the river sleeps until noon " * 400])
        assert np.isnan(rows).all()
        assert len(server.requests) < 15


def test_parts_of_a_request_that_failed_are_asked_for_once(server: OpenAIServer) -> None:
    server.fails_on = "otter"
    rows, _ = client(server, batch=100, dimensions=64).embed_counted([f"otter {number}" for number in range(8)])
    assert np.isnan(rows).all()
    first, short, parts = RETRIES + 1, 1, 2 + 4 + 8
    assert len(server.requests) == first + short + parts


def test_a_text_whose_vector_is_unusable_costs_only_itself() -> None:
    def embed(text: str, dimensions: int) -> np.ndarray:
        return bag_of_words(text, dimensions) * (np.nan if "heron" in text else 1)

    with OpenAIServer(embed=embed) as server:
        for texts, lacking in ((["an otter", "a heron"], [False, True]), (["a heron"], [True])):
            assert np.isnan(client(server).embed_counted(texts)[0]).any(axis=1).tolist() == lacking
        with pytest.raises(ConfigurationError, match="NaN"):
            client(server).embed_query("a heron")


def _short(rows: Rows) -> Rows:
    return [row | {"embedding": [1.0, 2.0]} for row in rows]


def _missing(rows: Rows) -> Rows:
    return rows[1:]


def _twice(rows: Rows) -> Rows:
    return [row | {"index": 0} for row in rows]


def _nan(rows: Rows) -> Rows:
    return [row | {"embedding": [float("nan")] * 64} for row in rows]


def _zeros(rows: Rows) -> Rows:
    return [row | {"embedding": [0.0] * 64} for row in rows]


@pytest.mark.parametrize(
    ("twist", "said"),
    [
        (_short, "2 numbers where 64"),
        (_missing, "1 embeddings for 2"),
        (_twice, "wrong indices"),
        (_nan, "NaN"),
        (_zeros, "zeros"),
    ],
)
def test_nonsense_is_not_believed(server: OpenAIServer, twist: object, said: str) -> None:
    model = client(server)
    assert model.dimensions == 64
    server.twist(twist)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match=said):
        model.embed(["a", "b"])


def test_rows_out_of_order_are_put_right(server: OpenAIServer) -> None:
    straight = client(server).embed(["apples", "pears"])
    server.twist(lambda rows: rows[::-1])
    np.testing.assert_array_equal(client(server).embed(["apples", "pears"]), straight)


def test_chosen_dimensions_are_asked_for_and_known_ones_are_not(server: OpenAIServer) -> None:
    assert client(server, dimensions=16).embed(["a"]).shape == (1, 16)
    assert server.requests[-1]["dimensions"] == 16
    large = OpenAICompatible(server.url, None, model="text-embedding-3-large")
    assert (large.dimensions, large.window, large.price_per_million) == (3072, 8191, 0.13)
    small = OpenAICompatible(server.url, None, price=0.5)
    assert (small.model, small.dimensions, small.price_per_million) == ("text-embedding-3-small", 1536, 0.5)
    with pytest.raises(ConfigurationError, match="64 numbers where 1536"):
        small.embed(["a"])
    assert "dimensions" not in server.requests[-1]


def test_prompts_go_with_each_text_and_are_part_of_the_name(server: OpenAIServer) -> None:
    plain = client(server)
    prompts = Prompts(query="query: ", passage="passage: ", query_type="query", passage_type="document")
    prompted = client(server, prompts=prompts)
    prompted.embed(["a", "b", ""])
    prompted.embed_query("c")
    first, second, third = server.requests
    assert sorted([first["input"], second["input"]]) == [["passage: "], ["passage: a", "passage: b"]]
    assert third["input"] == ["query: c"]
    assert [one["input_type"] for one in server.requests] == ["document", "document", "query"]
    assert {one["model"] for one in server.requests} == {"m"}
    plain.embed(["a"])
    assert "input_type" not in server.requests[-1]
    other = client(server, prompts=Prompts(query="q: "))
    assert (plain.model, len({plain.model, prompted.model, other.model})) == ("m", 3)
    assert has_prompts(prompted.model)
    assert not has_prompts("m")
