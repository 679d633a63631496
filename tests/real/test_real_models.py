"""Answers by a real language model and search with a real embedding service, through a proxy that injects faults.

`make test-real` runs this; `make test` does not. SmolLM2 has 135 million parameters, so what it says is no measure of answers. What is
tested is everything around it: each case ends in an answer or in quotes, each stream in `done`, and nothing false passes unmarked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.answer import indexed
from orchestration.demo import sample
from resources.embedding import embedder
from resources.settings import Settings
from serving.answers.citations import sentences
from serving.answers.cleaning import Cleaner
from serving.answers.leaks import Leaks
from serving.answers.prompt import ours
from serving.answers.support import MEANING, CitedText, Verdict, check, verdict
from tests.fixtures.serving import Running, Site, fresh_site
from tests.real.proxy import Fault, Proxy
from tests.real.servers import WINDOW, embedding_model, language_model

ANSWERS = 10
PERSON = sample.people()["helen"]
QUESTIONS = [one for one in sample.questions() if one.source_id and PERSON.id in one.may][:ANSWERS]
QUESTION = QUESTIONS[0].question
LIMITS: dict[str, Any] = {
    "llm_context_window": WINDOW,
    "llm_max_tokens": 100,
    "llm_timeout_seconds": 240.0,
    "answer_context_tokens": 300,
    "answer_cache_seconds": 0,
    "search_cache_seconds": 0,
}


class Case(NamedTuple):
    """A row of the table."""

    name: str
    happened: str
    seconds: float
    own_ms: float


CASES: list[Case] = []


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def model(logs: Path) -> Iterator[Proxy]:
    with language_model(logs / "language.log") as url, Proxy(url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def company(bundled_model: Any) -> Iterator[Site]:
    with indexed() as settings:
        yield Site(settings, bundled_model)


@pytest.fixture
def running(company: Site, model: Proxy, request: pytest.FixtureRequest) -> Iterator[Running]:
    """The service; a test's parameter is further settings."""
    model.fault = None
    plain = company.settings
    company.settings = plain.model_copy(
        update={"llm_model": "smollm2", "llm_base_url": model.url, **LIMITS, **getattr(request, "param", {})}
    )
    try:
        with company.running() as running:
            running.http.timeout = 600
            yield running
    finally:
        company.settings = plain


def ask(running: Running, query: str = QUESTION, **body: Any) -> dict[str, Any]:
    response = running.request("POST", "/api/ask", PERSON.email, *PERSON.groups, json={"query": query, **body})
    assert response.status_code == 200, response.text
    return response.json()


def stream(running: Running, query: str = QUESTION, leave_after: int | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a stream, or only the first few."""
    token = running.site.token(PERSON.email, *PERSON.groups)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    found: list[tuple[str, dict[str, Any]]] = []
    with running.http.stream("POST", "/api/ask", headers=headers, json={"query": query}) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
                if len(found) == leave_after:
                    break
    return found


def codes(answer: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def told(answer: dict[str, Any]) -> str:
    return " ".join((answer["mode"], *codes(answer)))


def case(
    name: str, work: Callable[[], dict[str, Any]], happened: Callable[[dict[str, Any]], str] = told
) -> dict[str, Any]:
    """Do the work, which returns an answer, and keep a row for the table."""
    began = time.perf_counter()
    answer = work()
    own = answer["latency_ms"] - answer["model_ms"]
    CASES.append(Case(name, happened(answer), time.perf_counter() - began, own))
    return answer


def test_it_answers_whole_and_streamed(running: Running, model: Proxy) -> None:
    case("whole", lambda: ask(running))
    names: list[str] = []

    def streamed() -> dict[str, Any]:
        found = stream(running)
        names.extend(name for name, _ in found)
        return found[-1][1]

    case("streamed", streamed)
    assert (names[0], names[-2:]) == ("sources", ["check", "done"])
    assert None not in model.ends
    history = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "I do not know."}]
    before = model.requests
    answer = case("conversation", lambda: ask(running, "And why is that?", conversation_history=history))
    assert model.requests - before == (2 if answer["sources"] else 1)
    assert answer["standalone"]


def five(running: Running, model: Proxy, name: str) -> int:
    """Stream five answers at once; return how many the server broke off."""
    before = len(model.ends)
    with ThreadPoolExecutor(5) as pool:
        began = time.perf_counter()
        answers = list(pool.map(lambda one: stream(running, one.question)[-1][1], QUESTIONS[:5]))
    lost = model.ends[before:].count(None)
    own = max(answer["latency_ms"] - answer["model_ms"] for answer in answers)
    CASES.append(Case(name, f"{lost} broken off by the server", time.perf_counter() - began, own))
    assert all(answer["answer"] for answer in answers)
    return lost


def test_five_at_once_all_get_an_answer(running: Running, model: Proxy) -> None:
    assert five(running, model, "five at once") == 0


@pytest.mark.parametrize("running", [{"llm_concurrency": 5}], indirect=True)
def test_five_at_once_without_the_limit(running: Running, model: Proxy) -> None:
    assert five(running, model, "five at once, llm_concurrency=5") > 0, (
        "the server aborts answers, so the limit is needed"
    )


@pytest.mark.parametrize("running", [{"answer_context_tokens": 3000, "llm_max_tokens": 4096}], indirect=True)
def test_the_longest_prompt_fits_the_window(running: Running, model: Proxy) -> None:
    history = [{"role": "user", "content": f"{QUESTION} " * 100}] * 3
    case("full window", lambda: ask(running, top_k=20, passages=30, conversation_history=history))
    assert 1000 < model.prompt_tokens <= WINDOW - WINDOW // 4


def test_a_reader_who_leaves_makes_way(running: Running, model: Proxy) -> None:
    def after_leaving() -> dict[str, Any]:
        assert [name for name, _ in stream(running, leave_after=3)] == ["sources", "token", "token"]
        return stream(running, QUESTIONS[1].question)[-1][1]

    case("the reader before left", after_leaving)
    assert model.ends[-1] is not None


FAULTS: list[Fault] = ["cut", "no end", "500", "html", "broken", "length"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_each_fault_ends_in_quotes(running: Running, model: Proxy, fault: Fault, streamed: bool) -> None:
    if fault in {"cut", "no end"} and not streamed:
        pytest.skip("only a stream can be cut")
    model.fault = fault

    def work() -> dict[str, Any]:
        if not streamed:
            return ask(running)
        found = stream(running)
        assert found[-1][0] == "done"
        return found[-1][1]

    answer = case(f"{fault}, {'streamed' if streamed else 'whole'}", work)
    assert (answer["mode"], codes(answer)) == ("extractive", ["model_unavailable"])


@pytest.mark.parametrize("running", [{"llm_timeout_seconds": 4.0}], indirect=True)
def test_a_model_that_hangs_costs_one_question(running: Running, model: Proxy) -> None:
    model.fault = "hang"
    before = model.requests
    first = case("hang", lambda: ask(running))
    after = case("the question after a hang", lambda: ask(running, QUESTIONS[1].question))
    assert codes(first) == codes(after) == ["model_unavailable"]
    assert model.requests - before == 1
    assert after["model_ms"] < 1000


LEAVE = "Employees accrue 25 vacation days a year. Up to five unused days are carried over until March."
HOTEL = "Ein Hotel darf höchstens 140 Euro je Nacht kosten. Die Reisestelle bucht es."
CELLS = "Heron は単一形電池二本で動きます。電池は六年半もちます。"


def test_a_real_embedding_service(logs: Path, database: str, vector_url: str, tmp_path: Path) -> None:
    with embedding_model(logs / "embedding.log") as url, Proxy(url) as service:
        named = {
            "embedding_provider": "openai",
            "embedding_model": "multilingual-e5-small",
            "openai_base_url": service.url,
        }
        home = tmp_path / "home"
        e5 = embedder(Settings(_env_file=None, home=home, **named))  # type: ignore[call-arg]
        with fresh_site(database, vector_url, e5, home) as site:
            site.settings = site.settings.model_copy(update={**named, "search_cache_seconds": 0})
            for title, text in (("Leave", LEAVE), ("Hotels", HOTEL), ("Heron", CELLS)):
                site.add(title, [text], [PERSON.email])
            with site.running() as running:
                for query, title in (
                    ("How long is my holiday?", "Leave"),
                    ("Was darf eine Übernachtung kosten?", "Hotels"),
                    ("How much may a room cost?", "Hotels"),
                    ("電池は何年もちますか。", "Heron"),
                ):
                    began = time.perf_counter()
                    found = running.search(query, PERSON.email)
                    first = found["results"][0]["title"]
                    CASES.append(
                        Case(f"E5: {query}", f"{first} first", time.perf_counter() - began, found["latency_ms"])
                    )
                    assert (first, found["warnings"]) == (title, [])
                    answer = ask(running, query)
                    assert (answer["mode"], answer["sources"][0]["title"]) == ("extractive", title)
                case("E5: answer", lambda: ask(running, "How many vacation days do employees accrue?"))
                service.fault = "500"
                degraded = running.search("vacation days", PERSON.email)
                CASES.append(Case("E5: 500", " ".join(codes(degraded)), 0, degraded["latency_ms"]))
                assert degraded["results"][0]["title"] == "Leave"
                assert codes(degraded)


def test_ten_answers_verbatim(running: Running, model: Proxy, bundled_model: Any, show: Callable[[str], None]) -> None:
    lines: list[str] = []
    for number, one in enumerate(QUESTIONS, start=1):
        answer = case(f"answer {number}", lambda asked=one.question: ask(running, asked))
        assert answer["latency_ms"] > 0
        written = model.written.strip()
        lines += ["", f"{number}. {one.question}", f"   the model: {written!r}"]
        lines += [f"      {_mark(found)} {found.text}" for found in _checked(written, answer["sources"], bundled_model)]
        lines += [f"   shown ({told(answer)}): {answer['answer']}"]
        assert answer["mode"] == "none" or any(found["supported"] for found in answer["sentences"])
    show("\n".join(lines))


def _checked(written: str, sources: list[dict[str, Any]], embedding: Any) -> list[Verdict]:
    """Return the verdicts on what the model wrote, also where quotes are shown instead."""
    cleaner = Cleaner(len(sources), Leaks(ours()))
    passages = {
        number: CitedText(source["chunk_text"], " ".join((source["title"], *source["section_path"])))
        for number, source in enumerate(sources, start=1)
    }
    verdicts: list[Verdict] = []
    for sentence in sentences(cleaner.feed(written) + cleaner.finish()):
        claim = check(sentence, passages, by_meaning=True)
        cosine = None
        if claim.evidence is not None:
            own, other = embedding.embed([sentence.text, claim.evidence])
            cosine = float(own @ other)
        verdicts.append(verdict(claim, cosine, MEANING[embedding.model]))
    return verdicts


def _mark(found: Verdict) -> str:
    return "✓" if found.supported else f"✗ {found.reason}:"


def test_the_table(show: Callable[[str], None]) -> None:
    rows = [f"{'case':34} {'what happened':48} {'seconds':>8} {'own ms':>8}"]
    rows += [f"{one.name:34} {one.happened:48} {one.seconds:8.1f} {one.own_ms:8.0f}" for one in CASES]
    assert len(CASES) > 20
    show("\n".join(rows))
