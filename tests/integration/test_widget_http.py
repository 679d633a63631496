"""The widget's routes: who gets a token, what it opens, and that visitors see public documents of one collection only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest

from resources.settings import FileRoot, Widget
from serving.identity.tokens import AUDIENCE, ISSUER, key_id, mint
from serving.widget.visitors import VISITOR_QUESTIONS, issue
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until

ANN = "ann@acme.com"
DOCS, BLOG, EVIL = "https://docs.acme.com", "https://blog.acme.com", "https://evil.example"
WIDGET = Widget(name="handbook", origins=(DOCS, "http://localhost:3000"), collection="handbook")
OTHER = Widget(name="blog", origins=(BLOG,), collection="blog")
QUESTION = "How many holidays may I carry over to the next year?"
CANARY = "qzx1canary"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


class Visitor:
    """A page of a site, and the token that its widget holds."""

    def __init__(self, running: Running, origin: str = DOCS, widget: str = "handbook") -> None:
        self.running, self.origin, self.path = running, origin, f"/api/widget/{widget}"
        self.token = ""

    def start(self) -> httpx.Response:
        answer = self.running.http.post(
            f"{self.path}/token", headers={"Origin": self.origin, "Sec-Fetch-Site": "cross-site"}
        )
        self.token = answer.json().get("token", "")
        return answer

    def ask(self, query: str = QUESTION, **more: Any) -> httpx.Response:
        headers = {"Origin": self.origin, **more.pop("headers", {})}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.running.http.post(f"{self.path}/ask", json={"query": query, **more}, headers=headers)

    def events(self, query: str = QUESTION, **more: Any) -> dict[str, Any]:
        """Ask, and return the data of the last event of each name."""
        answer = self.ask(query, **more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events_of(answer.text)


def events_of(stream: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in stream.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)
        if "data" in fields:
            found[fields["event"]] = json.loads(fields["data"])
    return found


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition("/")[2]


@pytest.fixture
def handbook(site: Site) -> Site:
    """Two widgets, a public handbook, and around it everything that its visitors may not see."""
    root = FileRoot(name="handbook", url="file:///", tenant="acme", dataset="handbook", base_url=f"{DOCS}/docs")
    site.settings = site.settings.model_copy(update={"widgets": (WIDGET, OTHER), "file_roots": (root,)})
    page(
        site,
        "Carry-over",
        "Up to five unused holidays may be carried over to the next year.",
        ["public"],
        path="time/carry-over.md",
    )
    page(site, "Secret", f"Holidays to carry over to the next year: {CANARY} hidden.", [ANN], path="secret.md")
    page(site, "Elsewhere", f"Holidays to carry over to the next year: {CANARY} blog.", ["public"], root="blog")
    page(
        site,
        "Intranet",
        f"Holidays to carry over to the next year: {CANARY} intranet.",
        ["domain:acme.com"],
        root="intranet",
    )
    stale = datetime.now(UTC) - timedelta(days=9)
    page(
        site,
        "Stale",
        f"Holidays to carry over: {CANARY} stale.",
        ["public"],
        path="stale.md",
        acl_checked_at=stale,
        partition="old",
    )
    return site


def page(
    site: Site, title: str, text: str, readers: list[str], *, root: str = "handbook", path: str = "", **more: Any
) -> str:
    path = path or f"{title.lower()}.md"
    folders = [root, *(f"{root}/{path.rpartition('/')[0]}" for _ in range("/" in path))]
    return site.add(
        title,
        [text],
        readers,
        source_id=f"{root}/{path}",
        path=path,
        url=f"{DOCS}/docs/{path.removesuffix('.md')}" if root == "handbook" else None,
        collection_ids=folders,
        owner="owner.person@acme.com",
        author="author.person@acme.com",
        places=[{"section_path": [title], "anchor": title.lower()}],
        **{"partition": root} | more,
    )


@pytest.fixture
def served(handbook: Site) -> Iterator[Running]:
    with handbook.running() as running:
        yield running


@pytest.fixture
def visitor(served: Running) -> Visitor:
    visitor = Visitor(served)
    assert visitor.start().status_code == 200
    return visitor


def test_a_visitor_gets_a_cited_answer_from_the_widgets_pages(visitor: Visitor) -> None:
    found = visitor.events()
    assert "five unused holidays" in found["done"]["answer"]
    assert found["done"]["cited"] == [1]
    assert (found["done"]["found"], found["done"]["quoted"]) == (True, True)
    (source,) = found["sources"]["sources"]
    assert source.pop("snippet").startswith("Up to five unused holidays")
    assert source == {
        "number": 1,
        "title": "Carry-over",
        "section_path": ["Carry-over"],
        "link": f"{DOCS}/docs/time/carry-over#carry-over",
    }


def test_an_answer_names_no_person_id_score_or_other_site(visitor: Visitor) -> None:
    text = visitor.ask().text
    for hidden in (
        CANARY,
        "@acme.com",
        "doc_id",
        "chunk",
        "score",
        'path":"',
        "search.example",
        "held",
        "warning",
        "_id",
    ):
        assert hidden not in text, hidden


def test_only_public_documents_of_the_collection_are_found(visitor: Visitor) -> None:
    for query in (
        QUESTION,
        f"holidays {CANARY}",
        f"{CANARY} hidden",
        f"{CANARY} blog",
        "Elsewhere",
        "Secret",
        "files",
        "from Ann",
    ):
        answer = visitor.ask(query)
        assert answer.status_code == 200
        assert CANARY not in answer.text
        assert [one["title"] for one in events_of(answer.text)["sources"]["sources"]] in ([], ["Carry-over"])


def test_a_selection_is_answered_from_its_page_only_and_hidden_pages_are_not_there(
    handbook: Site, visitor: Visitor
) -> None:
    page(handbook, "Sick days", "Holidays to carry over are not sick days.", ["public"], path="time/sick-days.md")
    chosen = "Up to five unused holidays may be carried over to the next year."
    for name in (
        "/docs/time/carry-over",
        "/docs/time/carry-over/",
        f"{DOCS}/docs/time/carry-over",
        "time/carry-over.md",
    ):
        found = visitor.events("What does this mean?", selection={"text": chosen, "page": name})
        assert [one["title"] for one in found["sources"]["sources"]] == ["Carry-over"], name
    missing = {
        problem_text(visitor, name)
        for name in (
            "/docs/secret",
            "secret.md",
            "/docs/nowhere",
            "blog/elsewhere.md",
            "elsewhere.md",
            "/docs/stale",
            "//[#",
            "http://[x#y",
        )
    }
    secret, blog = (
        handbook.sql("SELECT doc_id::text FROM documents WHERE source_title = %s", one)[0][0]
        for one in ("Secret", "Elsewhere")
    )
    missing |= {problem_text(visitor, name) for name in (secret, blog, f"{DOCS}/documents/{secret}")}
    assert missing == {"selection.page: there is no such page in this collection."}


def problem_text(visitor: Visitor, name: str) -> str:
    answer = visitor.ask(selection={"text": "Anything at all.", "page": name})
    assert problem(answer) == (404, "not-found"), name
    return answer.json()["detail"]


def test_cached_answers_and_searches_cross_neither_to_visitors_nor_from_them(
    handbook: Site, model_server: ModelServer
) -> None:
    handbook.sql(
        "UPDATE documents SET state = 'deleted' WHERE source_title = 'Stale'"
    )  # answers with a warning are not cached
    update = {"llm_model": "fake", "llm_base_url": model_server.url}
    handbook.settings = handbook.settings.model_copy(update=update)
    with handbook.running() as running:
        narrow = {"query": QUESTION, "filters": {"collection_ids": ["handbook"]}, "style": "chat", "understand": False}
        hers = running.request("POST", "/api/ask", ANN, json=narrow).json()
        assert "Secret" in [one["title"] for one in hers["sources"]]
        visitor, other = Visitor(running), Visitor(running, "http://localhost:3000")
        for one in (visitor, other, visitor):
            one.start()
            answer = one.ask()
            assert CANARY not in answer.text
            assert events_of(answer.text)["done"]["cited"] == [1]
            running.settle()
        assert "Secret" in running.titles(QUESTION, ANN, filters={"collection_ids": ["handbook"]})
        assert len(model_server.prompts) == 2  # hers, and one for all visitors
        assert CANARY not in model_server.prompts[1].text


def test_a_revoked_page_is_gone_at_once_also_from_cached_searches(handbook: Site, visitor: Visitor) -> None:
    assert visitor.events()["done"]["found"]
    handbook.sql("UPDATE documents SET permissions = %s WHERE source_title = 'Carry-over'", [ANN])
    gone = visitor.events()
    assert (gone["sources"]["sources"], gone["done"]["found"]) == ([], False)


def test_a_page_indexed_later_is_found_although_the_search_was_cached(handbook: Site, visitor: Visitor) -> None:
    done = visitor.events("What is served in the canteen on Mondays?")["done"]
    assert (done["found"], done["note"]) == (False, None)
    assert {*done} & {"unanswered", "documents"} == set()  # visitors receive no counts
    page(handbook, "Canteen", "In the canteen, soup is served on Mondays.", ["public"])
    assert visitor.events("What is served in the canteen on Mondays?")["done"]["found"]


def test_no_visitor_reads_an_answer_again_and_the_audit_log_names_the_widget(handbook: Site, visitor: Visitor) -> None:
    visitor.ask()
    visitor.running.settle()
    ((answer_id,),) = handbook.sql("SELECT answer_id::text FROM answers WHERE email = 'widget:handbook'")
    assert problem(visitor.running.request("GET", f"/api/answers/{answer_id}", ANN, admin=True)) == (404, "not-found")
    assert handbook.sql("SELECT query FROM audit_log WHERE email = 'widget:handbook' AND action = 'ask'") == [
        (QUESTION,)
    ]
    with pytest.raises(Exception, match="email"):
        mint(handbook.settings, "widget:handbook")


def test_only_listed_origins_get_a_token(served: Running) -> None:
    for origin in (EVIL, BLOG, "null", "", DOCS.upper(), f"{DOCS}.evil.example", f"{DOCS}:444", "http://docs.acme.com"):
        assert problem(Visitor(served, origin).start()) == (403, "origin-foreign"), origin
    assert problem(Visitor(served, DOCS, "unknown").start()) == (404, "not-found")
    without = served.http.post("/api/widget/handbook/token")
    assert problem(without) == (403, "origin-foreign")
    started = Visitor(served, "http://localhost:3000").start()
    assert (started.status_code, started.json()["expires_in"]) == (200, 600)


def test_a_token_is_bound_to_its_widget_origin_and_collection(
    handbook: Site, served: Running, visitor: Visitor
) -> None:
    for origin, widget in ((BLOG, "blog"), ("http://localhost:3000", "handbook")):
        other = Visitor(served, origin, widget)
        other.token = visitor.token
        assert problem(other.ask()) == (401, "token-invalid"), origin
    for headers in ({"Origin": EVIL}, {"Origin": ""}, {"Origin": BLOG}):
        assert problem(visitor.ask(headers=headers)) == (403, "origin-foreign")
    key = served_key(handbook)
    for token, slug in (
        (issue(key, WIDGET.model_copy(update={"collection": "intranet"}), DOCS), "token-invalid"),
        (issue(key, WIDGET, DOCS, timedelta(seconds=-60)), "token-expired"),
        (issue("another key, which is long enough to sign", WIDGET, DOCS), "token-signature"),
        (visitor.token[:-3], "token-signature"),
        ("x", "token-malformed"),
        ("", "token-missing"),
        (handbook.token(ANN), "token-invalid"),
        (jwt.encode({**claims(visitor.token), "aud": AUDIENCE}, key, "HS256", {"kid": key_id(key)}), "token-invalid"),
        (jwt.encode(claims(visitor.token), "", "none"), "token-signature"),
    ):  # fmt: skip
        visitor.token = token
        assert problem(visitor.ask()) == (401, slug), token


def test_a_token_may_expire_while_a_visitors_question_is_answered(handbook: Site, model_server: ModelServer) -> None:
    handbook.settings = handbook.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    with handbook.running() as running, ThreadPoolExecutor(1) as pool:
        visitor = Visitor(running)
        visitor.token = issue(served_key(handbook), WIDGET, DOCS, timedelta(0))  # five seconds of leeway are left
        model_server.hold()
        asked = pool.submit(visitor.events)
        model_server.wait_for(1)
        until(lambda: visitor.ask("").status_code == 401, "the token's end")
        model_server.release()
        assert "five unused holidays" in asked.result()["done"]["answer"]


def served_key(site: Site) -> str:
    from resources.keys import secret_key

    return secret_key(site.settings)


def claims(token: str) -> dict[str, Any]:
    found = jwt.decode(token, options={"verify_signature": False})
    assert found["iss"] == ISSUER
    assert jwt.get_unverified_header(token)["kid"]
    return found


def test_a_widgets_token_opens_nothing_else(served: Running, visitor: Visitor) -> None:
    for method, path, body in (
        ("POST", "/api/rag/search", {"query": "holidays"}),
        ("POST", "/api/ask", {"query": "holidays"}),
        ("POST", "/ask", {"query": "holidays"}),
        ("GET", "/api/documents", None),
        ("GET", "/api/me", None),
        ("GET", "/scim/v2/Users", None),
    ):
        answer = served.http.request(method, path, json=body, headers={"Authorization": f"Bearer {visitor.token}"})
        assert answer.status_code == 401, path
    cookie = {**served.site.session(ANN), "Origin": DOCS}
    assert problem(served.http.post("/api/widget/handbook/ask", json={"query": "x"}, headers=cookie)) == (
        401,
        "token-missing",
    )


def test_only_a_widgets_pages_may_call_its_routes_from_a_browser(served: Running, visitor: Visitor) -> None:
    for path in ("token", "ask"):
        asked = served.http.request("OPTIONS", f"/api/widget/handbook/{path}", headers={"Origin": DOCS, **PREFLIGHT})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, DOCS)
        assert "access-control-allow-credentials" not in asked.headers
    for origin in (EVIL, BLOG, "null"):
        asked = served.http.request("OPTIONS", "/api/widget/handbook/ask", headers={"Origin": origin, **PREFLIGHT})
        assert not [name for name in asked.headers if name.startswith("access-control")], origin
        for refused in (Visitor(served, origin).start(), Visitor(served, origin, "unknown").start()):
            allowed = {name: one for name, one in refused.headers.items() if name.startswith("access-control")}
            assert allowed == {"access-control-allow-origin": "*"}, (
                "the page learns that it is refused, and nothing else"
            )
    for path in ("/api/rag/search", "/api/ask", "/api/documents"):
        asked = served.http.request("OPTIONS", path, headers={"Origin": DOCS, **PREFLIGHT})
        assert "access-control-allow-origin" not in asked.headers, path
    assert visitor.ask().headers["access-control-allow-origin"] == DOCS
    assert visitor.ask("").headers["access-control-allow-origin"] == DOCS  # problems can be read, too
    assert visitor.ask().headers["vary"] == "Origin"


def test_the_script_is_small_public_and_loads_under_an_embedder_policy(served: Running) -> None:
    script = served.http.get("/widget.js", headers={"Origin": EVIL})
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert script.headers.get_list("access-control-allow-origin") == ["*"]
    assert script.headers["cache-control"] == "public, max-age=3600"
    assert len(script.content) < 32_000


def test_questions_are_limited_by_visitor_and_in_total(handbook: Site) -> None:
    few = WIDGET.model_copy(update={"daily_questions": VISITOR_QUESTIONS + 2})
    handbook.settings = handbook.settings.model_copy(update={"widgets": (few, OTHER)})
    with handbook.running() as running:
        visitor = Visitor(running)
        visitor.start()
        first, second = ({"headers": {"X-Forwarded-For": address}} for address in ("192.0.2.1", "192.0.2.2"))
        statuses = [visitor.ask("", **first).status_code for _ in range(VISITOR_QUESTIONS)]
        assert statuses == [400] * VISITOR_QUESTIONS
        refused = visitor.ask("", **first)
        assert problem(refused) == (429, "rate-limited")
        assert refused.headers["retry-after"]
        assert [visitor.ask("", **second).status_code for _ in range(3)] == [400, 400, 429]
        assert "a day from all visitors" in visitor.ask("", **second).json()["detail"]


def test_bodies_are_bounded_and_strict(visitor: Visitor) -> None:
    for body in (
        {"filters": {"collection_ids": ["blog"]}},
        {"collection_id": "blog"},
        {"stream": True},
        {"selection": {"document_id": "x", "text": "y"}},
        {"selection": {"text": "", "page": "/"}},
        {"conversation_history": [{"role": "user", "content": "x"}] * 5},
        {"conversation_history": [{"role": "system", "content": "x"}]},
    ):
        assert problem(visitor.ask(**body)) == (400, "invalid-request"), body
    assert problem(visitor.ask(conversation_history=[{"role": "user", "content": "x" * 19_000}] * 4)) == (
        413,
        "too-large",
    )
    assert visitor.events("And to the year after?", conversation_history=[{"role": "user", "content": QUESTION}])[
        "done"
    ]
