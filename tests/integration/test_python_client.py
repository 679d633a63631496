"""The Python client against the running service, and the programs of its documentation."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from concordance_client import (
    AnswerResponse,
    AsyncClient,
    AuthenticationError,
    CheckEvent,
    Client,
    InvalidRequestError,
    NotFoundError,
    SourcesEvent,
    TokenEvent,
)
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@other.com"
ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "clients/python/README.md")
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def client(site: Site, running: Running) -> Iterator[Client]:
    """Ann's client of a service with three documents, of which she may read two."""
    site.add("Tea", ["Tea is served at four in the kitchen."], ["public"])
    site.add("Coffee", ["Coffee is served at nine in the kitchen."], ["domain:acme.com"])
    site.add("Salaries", ["Salaries are served in March in the kitchen."], ["group:hr@acme.com"])
    with Client(running.url, site.token(ANN)) as client:
        yield client


def test_search_shows_what_its_caller_may_read(site: Site, running: Running, client: Client) -> None:
    found = client.search("What is served in the kitchen?", mode="keyword", total=True)
    assert {result.title for result in found.results} == {"Tea", "Coffee"}
    assert found.total is not None
    assert found.total.count == 2
    with Client(running.url, site.token(BOB)) as stranger:
        assert [one.title for one in stranger.search("kitchen", mode="keyword").results] == ["Tea"]


def test_pages_of_searches_and_lists(client: Client) -> None:
    titles = [one.title for one in client.iter_search("served in the kitchen", mode="keyword", top_k=1)]
    assert sorted(titles) == ["Coffee", "Tea"]
    assert sorted(one.title for one in client.iter_documents(limit=1)) == ["Coffee", "Tea"]


def test_an_answer_whole_and_in_parts(client: Client) -> None:
    whole = client.ask("When is tea served?")
    *events, last = client.ask_stream("When is tea served?")
    assert isinstance(last, AnswerResponse)
    assert last.answer == whole.answer
    assert last.answer.startswith("“Tea is served at four in the kitchen.” [1]")
    assert "".join(one.text for one in events if isinstance(one, TokenEvent)) == last.answer
    assert isinstance(events[0], SourcesEvent)
    assert isinstance(events[-1], CheckEvent)
    kept = client.get_answer(last.answer_id)
    assert [source.title for source in kept.sources] == [source.title for source in last.sources]
    assert client.feedback("good", answer_id=last.answer_id).feedback_id


def test_an_upload_and_its_change(client: Client) -> None:
    progress: list[tuple[int, int]] = []
    stored = client.upload(
        b"# Soup", filename="soup.md", title="Soup", progress=lambda sent, size: progress.append((sent, size))
    )
    assert (stored.status, progress) == ("processing", [(6, 6)])
    assert client.change_document(stored.doc_id, title=None, share=["domain:acme.com"]).title == "soup.md"
    assert client.delete_document(stored.doc_id).status == "deleted"


def test_problems_are_exceptions(running: Running, client: Client) -> None:
    with pytest.raises(NotFoundError, match="no such document"):
        client.get_document(UNKNOWN)
    with pytest.raises(InvalidRequestError) as raised:
        client.search("tea", top_k=99)
    assert [(one.field, one.allowed) for one in raised.value.fields] == [("top_k", "a whole number from 1 to 50")]
    with pytest.raises(InvalidRequestError):
        next(client.ask_stream(""))
    with Client(running.url, "not-a-token") as stranger, pytest.raises(AuthenticationError) as refused:
        stranger.me()
    assert refused.value.kind == "token-malformed"


def test_many_coroutines_share_a_client(site: Site, running: Running, client: Client) -> None:
    async def titles() -> list[str]:
        async with AsyncClient(running.url, site.token(ANN)) as client:
            found = await asyncio.gather(*(client.search("tea", mode="keyword") for _ in range(8)))
            events = [one async for one in client.ask_stream("When is tea served?")]
            assert isinstance(events[-1], AnswerResponse)
            assert (await client.me()).email == ANN
            return [one.results[0].title for one in found]

    assert asyncio.run(titles()) == ["Tea"] * 8


def programs(page: str) -> list[str]:
    """Return the Python programs of a page that call the service."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "http://127.0.0.1:8080" in block]


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_the_documentation_run(page: str, site: Site, running: Running, client: Client) -> None:
    site.add("Claims", ["Osprey Marine claims 41 million euros for the hull."], ["public"])
    printed: list[str] = []
    for program in programs(page):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("http://127.0.0.1:8080", running.url)],
            env={"TOKEN": site.token(ANN), "PYTHONPATH": str(ROOT / "clients" / "python" / "src")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{program}\n{done.stderr}"
        printed.append(done.stdout)
    assert printed[0].startswith("[1] Claims (Files, ")
    assert "“Osprey Marine claims 41 million euros for the hull.” [1]" in printed[0]
    assert all(printed)
