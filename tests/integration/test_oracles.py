"""Nothing in an answer depends on documents hidden from the caller: two installations that differ only in these answer Eve alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from tests.fixtures.openapi import SETTINGS, operations
from tests.fixtures.paired_sites import ANN, ANNS_JOB, EVE, FAILED_JOB, JOB, KEEPER, SECRET_TEXT, WORDS, PairedSites

EXAMPLES = int(os.environ.get("CONCORDANCE_TEST_EXAMPLES", "8"))
"""Bodies per route."""
MISSING = "00000000-0000-4000-8000-00000000dead"
SENDERS: Sequence[dict[str, str]] = [
    {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": shown_in}
    for site, mode, shown_in in (
        ("none", "navigate", "document"),
        ("cross-site", "navigate", "document"),
        ("cross-site", "navigate", "iframe"),
        ("cross-site", "no-cors", "image"),
    )
]
"""What a browser says of an address that was typed in, and of one that a page of another site links to, frames or loads."""
SPELLED = (
    *(word[:-2] for word in WORDS),
    *(f"{word[0]}{word[2]}{word[1]}{word[3:]}" for word in WORDS),
    "qxwvzk",
    "hidden from:ann",
    "-heron pier",
    "in:root ferry",
    "type:md heron",
)
"""Beginnings of words, words with an error, letters without a meaning, and operators."""
NAMED = (
    *("ferd", "Ferdinand Pier", "ferry harb", "harbuor", "in:harbour"),
    *("hero", "Heronymus Layoff", "heronymos", "sala", "#salar", "#slaaries", "ferry", "in:layoffs"),
)
"""Names of people, channels and folders, which only visible or only hidden documents have, their beginnings, and some with an error."""
QUERIES = (*WORDS, "heron salary", "ferry budget of the harbour", "layoff of the heron team", SECRET_TEXT)


def test_no_score_reveals_how_many_hidden_documents_contain_a_word(
    paired_sites: PairedSites, subtests: pytest.Subtests
) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        with subtests.test(mode=mode):
            for query in QUERIES:
                for fusion in ("weighted", "rrf", "dbsf", "minmax") if mode == "hybrid" else ("weighted",):
                    body = {"query": query, "mode": mode, "fusion": fusion, "top_k": 50, "explain": True}
                    paired_sites.ask("POST", "/api/rag/search", json=body)


def test_a_threshold_finds_the_same_whatever_is_hidden(paired_sites: PairedSites) -> None:
    for query in QUERIES:
        for step in range(1, 20):
            body = {"query": query, "mode": "keyword", "top_k": 50, "threshold": step / 20}
            plain, _ = paired_sites.ask("POST", "/api/rag/search", json=body)
            assert all(one["relevance_score"] >= step / 20 for one in plain.json()["results"])


def test_every_route_answers_alike_whatever_is_hidden(paired_sites: PairedSites, show: Callable[[str], None]) -> None:
    """Realistic requests first, then what the OpenAPI document allows with bait among the values."""
    for attack in (
        searches,
        questions,
        pages,
        browsers,
        prompts,
        agents,
        other_interfaces,
        documents,
        lists,
        ledger,
        people,
        uploads_of_a_hidden_text,
    ):
        attack(paired_sites)
    fuzz(paired_sites)
    show(paired_sites.table())
    assert paired_sites.compared.total() >= 300
    assert {one.label for one in operations(paired_sites.runs[0], [])} <= set(paired_sites.compared)


def searches(paired_sites: PairedSites) -> None:
    """Search in every way for words that occur only or mostly in hidden documents."""
    bodies: list[dict[str, Any]] = [{"query": query, "top_k": top_k} for query in QUERIES for top_k in (1, 5, 50)]
    for query in ("heron salary", "layoff", SECRET_TEXT):
        bodies += [{"query": query, "mode": mode} for mode in ("vector", "keyword")]
        bodies += [{"query": query, "fusion": fusion, "explain": True} for fusion in ("rrf", "dbsf", "minmax")]
        bodies += [
            {"query": query, "group_by_document": False, "neighbours": 3, "depth": 10},
            {"query": query, "rerank": True, "threshold": 0.2},
            {"query": query, "filters": {"document_ids": [*paired_sites.hidden[:5], *paired_sites.open]}},
            {"query": query, "filters": {"source_types": ["slack", "upload"], "include_archived": True}},
            {
                "query": query,
                "filters": {"collection_ids": ["root"], "authors": [ANN], "mime_types": ["text/markdown"]},
            },
            {"query": query, "filters": {"date_range": {"start": "2025-01-01", "end": "2025-12-31"}}},
            {"query": query, "top_k": 2, "total": True, "facets": ["source_type", "mime_type", "author", "tags.topic"]},
        ]
    for query in SPELLED:
        bodies.append({"query": query, "top_k": 50, "total": True, "facets": ["source_type", "author", "tags.topic"]})
        bodies += [{"query": query, "mode": "keyword"}, {"query": f"ferry {query}"}]
    for body in [*bodies, *({"query": query, "names": True} for query in (*NAMED, *SPELLED, *QUERIES))]:
        paired_sites.ask("POST", "/api/rag/search", json=body)
    for _ in range(2):  # nor does what others asked: Ann has asked the same of one of them
        paired_sites.runs[1].request("POST", "/api/rag/search", ANN, json={"query": "heron"})
        paired_sites.ask("POST", "/api/rag/search", json={"query": "heron", "explain": True})


def questions(paired_sites: PairedSites) -> None:
    """Ask, as a whole and as a stream, and look at the answers that were kept."""
    for query in QUERIES:
        asked = paired_sites.ask("POST", "/api/ask", json={"query": f"What is known of {query}?"})
        paired_sites.ask("POST", "/api/ask", json={"query": query, "stream": True, "threshold": 0.3})
        for running in paired_sites.runs:
            running.settle()
        paired_sites.follow("GET", "/api/answers/{answer_id}", asked)
        verdict = {"verdict": "bad", "expected_document": paired_sites.hidden[0]}
        pairs = [{"json": verdict | {"answer_id": one.json()["answer_id"]}} for one in asked]
        paired_sites.each("POST", "/api/feedback", pairs)


def pages(paired_sites: PairedSites) -> None:
    """Search on the page, with filters, and open the pages of one's own questions and of the sources."""
    for query in QUERIES:
        for chosen in ({}, {"source": "slack"}, {"type": "text/markdown"}, {"author": ANN}, {"days": "30"}):
            address = urlencode({"q": query, **chosen})
            paired_sites.ask("GET", f"/results?{address}", route="GET /results")
    for query in (*NAMED, *SPELLED):
        paired_sites.ask("GET", f"/results?{urlencode({'q': query})}", route="GET /results")
    for page in ("/", "/history", "/sources", "/me"):
        paired_sites.ask("GET", page)


def browsers(paired_sites: PairedSites) -> None:
    """Open what is hidden, what is there and what is not in a browser, at right and wrong addresses, from here and from other sites."""
    unknown = "GET an unknown address"
    with paired_sites.browser() as browse:
        opened = [browse("GET /documents/{doc_id}", f"/documents/{paired_sites.open[1]}", one) for one in SENDERS]
        assert opened == [200, 200, 403, 403], "the browser is signed in"
        for doc_id in (paired_sites.hidden[0], paired_sites.open[0], MISSING):
            for path in ("/documents/{}", "/documents/{}/original", "/api/documents/{}", "/api/documents/{}/original"):
                for sender in SENDERS:
                    browse(f"GET {path.format('{doc_id}')}", path.format(doc_id), sender)
            for path in (f"/documents/{doc_id}/orginal", f"/document/{doc_id}", f"/answers/{doc_id}"):
                browse(unknown, path, SENDERS[0])
        for path in ("/documents/Hidden 0.md", "/documents/", "/root/Hidden 0.md", "/api/hidden"):
            for sender in SENDERS[:2]:
                browse(unknown, path, sender)
        for path in ("/", "/results", "/sources", "/sources/files", "/admin", "/history", "/upload"):
            for sender in SENDERS[1:3]:
                browse(f"GET {path}", f"{path}?q=heron+layoff", sender)
        for sender in SENDERS:
            browse("GET /api/why", f"/api/why?source={paired_sites.hidden[0]}", sender)


def prompts(paired_sites: PairedSites) -> None:
    """Ask what the language model would be sent."""
    for query in ("heron salary", "layoff", SECRET_TEXT):
        for mode in ("vector", "hybrid"):
            body = {"query": f"What is known of {query}?", "mode": mode, "show_prompt": True}
            for asked in paired_sites.ask("POST", "/api/ask", json=body):
                assert "Hidden" not in str(asked.json()["prompt"])


def agents(paired_sites: PairedSites) -> None:
    """Search, read and ask as an agent does."""
    calls: list[tuple[str, dict[str, Any]]] = [
        (tool, {"query": query}) for query in QUERIES for tool in ("search", "ask")
    ]
    ids = (*paired_sites.hidden[:4], *paired_sites.open[:2], MISSING)
    calls += [("fetch", {"id": f"{doc_id}{place}"}) for doc_id in ids for place in ("", "#0", "#1")]
    for tool, arguments in calls:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sent = [
            running.request("POST", "/mcp", EVE, json=message, headers={"Accept": "application/json"}).json()["result"]
            for running in paired_sites.runs
        ]
        plain, full = (httpx.Response(200, json=one.get("structuredContent", one)) for one in sent)
        paired_sites.compare("POST /mcp", json.dumps(params), plain, full)


def other_interfaces(paired_sites: PairedSites) -> None:
    for query in QUERIES:
        for mode in ("vector", "hybrid"):
            for threshold in (None, 0, 0.3, 0.6):
                paired_sites.ask("POST", "/api/rag.search", json={"query": query, "mode": mode, "threshold": threshold})
        paired_sites.ask("POST", "/api/search", json={"query": query, "limit": 50})
        paired_sites.ask("POST", "/api/search", json={"query": query, "file_id": paired_sites.hidden[0]})
        paired_sites.ask("POST", "/api/chat", json={"message": query})
        paired_sites.ask("POST", "/ask", json={"query": query, "collection_id": "root"})
        local = {"query": query, "context": SECRET_TEXT[:60], "source_file": "root/Hidden 0.md"}
        paired_sites.ask("POST", "/ask-local", json=local)
    for who in ("stranger@other.com", "mallory@elsewhere.org"):
        paired_sites.ask("POST", "/api/rag.search", who, json={"query": "heron"})


def documents(paired_sites: PairedSites) -> None:
    """Open, cite, delete and trace what is hidden, what is there and what is not."""
    for doc_id in (*paired_sites.hidden[:4], *paired_sites.open[:2], MISSING):
        for path in ("?chunk=0", "?chunk=1", "?start=0&end=9", ""):
            paired_sites.ask("GET", f"/api/documents/{doc_id}{path}", route="GET /api/documents/{doc_id}")
        paired_sites.ask("GET", f"/documents/{doc_id}?chunk=0", route="GET /documents/{doc_id}")
        paired_sites.ask("DELETE", f"/api/documents/{doc_id}", route="DELETE /api/documents/{doc_id}")
        for query in ({}, {"query": "heron layoff"}):
            paired_sites.ask("GET", "/api/why", params={"source": doc_id, **query})
        paired_sites.ask("POST", "/api/citations/format", json={"doc_ids": [doc_id, *paired_sites.open]})
    for source in ("root/Hidden 0.md", "files:root/Hidden 4.md", "root/0", f"{ANN}:{'a' * 64}"):
        paired_sites.ask("GET", "/api/why", params={"source": source, "query": "heron"})


def lists(paired_sites: PairedSites) -> None:
    """List and count with every filter, and change and download what is hidden."""
    for parameters in (
        {}, {"limit": 2}, {"title": "hidden"}, {"author": ANN}, {"collection_id": "root"}, {"source_type": "slack"},
        {"start": "2025-03-04", "end": "2025-03-04"}, {"tag": "topic:heron"}, {"include_archived": True},
    ):  # fmt: skip
        paired_sites.ask("GET", "/api/documents", params=parameters)
    for parameters in ({}, {"limit": 1}, {"source_type": "slack"}, {"include_archived": True}):
        paired_sites.ask("GET", "/api/collections", params=parameters)
    for doc_id in (*paired_sites.hidden[:4], *paired_sites.open[:2], MISSING):
        path = f"/api/documents/{doc_id}"
        paired_sites.ask("GET", f"{path}/original", route="GET /api/documents/{doc_id}/original")
        for body in ({"title": "Mine"}, {"share": ["eve@acme.com"]}, {}):
            paired_sites.ask("PATCH", path, route="PATCH /api/documents/{doc_id}", json=body)


def ledger(paired_sites: PairedSites) -> None:
    paired_sites.ask("GET", "/api/sources")
    for job in (JOB, FAILED_JOB, MISSING):
        paired_sites.ask("GET", f"/api/sync/status/{job}", route="GET /api/sync/status/{job_id}")
    for job in (ANNS_JOB, MISSING):
        paired_sites.ask("GET", f"/api/ingest/{job}", route="GET /api/ingest/{job_id}")
    for path in ("/healthz", "/readyz", "/api/auth/google"):
        paired_sites.ask("GET", path)
    paired_sites.ask("POST", "/api/sync/files", route="POST /api/sync/{source}", json={})


def people(paired_sites: PairedSites) -> None:
    """Ask who one is and whom to share with, rate what one did not ask, log a conversation, and use a link that is not valid."""
    paired_sites.ask("GET", "/api/me")
    for prefix in ("", "he", KEEPER[:8], ANN[:2], "group:"):
        paired_sites.ask("GET", "/api/principals", params={"prefix": prefix})
    found = paired_sites.ask("POST", "/api/rag/search", json={"query": "heron layoff", "mode": "vector"})
    for running in paired_sites.runs:
        running.settle()
    for expected in (paired_sites.hidden[0], paired_sites.open[0], MISSING):
        for verdict in ("bad", "good"):
            rating = {"verdict": verdict, "expected_document": expected}
            pairs = [{"json": rating | {"query_id": one.json()["query_id"]}} for one in found]
            paired_sites.each("POST", "/api/feedback", pairs)
            paired_sites.ask("POST", "/api/feedback", json=rating | {"answer_id": MISSING})
    shown = [{"file": "root/Hidden 0.md", "section": "Hidden 0"}]
    said = {"query": "heron?", "answer": SECRET_TEXT, "timestamp": "2026-11-22T10:00:00Z", "sources": shown}
    paired_sites.ask("POST", "/track", json=said)
    paired_sites.ask("GET", "/sign-in/link")
    paired_sites.ask("POST", "/sign-in/email", data={"address": EVE}, headers={"Sec-Fetch-Site": "same-origin"})
    paired_sites.ask("POST", "/sign-in/link", data={"token": "none"}, headers={"Sec-Fetch-Site": "same-origin"})


def uploads_of_a_hidden_text(paired_sites: PairedSites) -> None:
    """Hand in what Ann has handed in to one of them, and take it back."""
    for name, text in (("offer.md", SECRET_TEXT), ("new.md", f"{SECRET_TEXT} Or not.")):
        file = {"file": (name, text.encode())}
        if name == "offer.md":
            paired_sites.runs[1].request("POST", "/api/upload", ANN, files=file)
        for _ in range(2):
            handed, _ = paired_sites.ask("POST", "/api/upload", files=file)
        body = {"content": text, "filename": name, "tags": {"tenant": "acme", "dataset": "x"}}
        for more in ({}, {"doc_id": "offer"}, {"content": None, "blob_path": "root/Hidden 0.md"}):
            jobs = paired_sites.ask("POST", "/api/ingest", json=body | more)
            if jobs[0].status_code == 202:
                paired_sites.follow("GET", "/api/ingest/{job_id}", jobs)
        doc_id = handed.json()["doc_id"]
        paired_sites.ask("GET", "/api/why", params={"source": doc_id, "query": text})
        paired_sites.ask("DELETE", f"/api/documents/{doc_id}", route="DELETE /api/documents/{doc_id}")


def fuzz(paired_sites: PairedSites) -> None:
    """Send bodies that the OpenAPI document allows to both."""
    known = [*paired_sites.hidden[:5], *paired_sites.open, JOB, MISSING]
    for operation in operations(paired_sites.runs[0], [*WORDS, *QUERIES, *known, "root/Hidden 0.md"]):
        attacked(paired_sites, operation, known)


def attacked(paired_sites: PairedSites, operation: Any, known: Sequence[str]) -> None:
    """Send bodies to one operation of both."""
    headers = [{"Authorization": f"Bearer {one.token(EVE)}"} for one in paired_sites.sites]

    @hypothesis.settings(SETTINGS, max_examples=EXAMPLES)
    @hypothesis.given(st.data())
    def attack(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if case.path_parameters and data.draw(st.booleans()):
            case.path_parameters = {name: data.draw(st.sampled_from(known)) for name in case.path_parameters}
        pairs = zip(paired_sites.runs, headers, strict=True)
        answers = [case.call(base_url=running.url, headers=signed) for running, signed in pairs]
        sent = json.dumps([case.path_parameters, case.query, repr(case.body)], default=repr)
        paired_sites.compare(operation.label, f"{operation.label} {sent}", *answers)

    attack()
