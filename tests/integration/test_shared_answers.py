"""Answers shared by link: who opens them, what the rest learn, when it ends; and one's own questions."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from selectolax.lexbor import LexborHTMLParser

from resources.stores.offboarding import offboard
from resources.stores.postgres import connect
from tests.fixtures.serving import Running, Site

ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@other.com"
QUESTION = "When is the kettle of the boardroom descaled?"
SECRET = "The kettle of the boardroom is descaled on Fridays by Marta."


@pytest.fixture
def shared(site: Site, running: Running) -> dict[str, Any]:
    """Ann's answer from a document for Ann and Bob, and one for Ann alone, shared."""
    site.add("Kitchen", [SECRET], [ANN, BOB])
    site.add("Board", ["The kettle of the boardroom was bought in May; it is descaled quarterly."], [ANN])
    answer = ask(running)
    assert len(answer["sources"]) == 2
    assert share(running, answer).status_code == 200
    return answer


def ask(running: Running, who: str = ANN, **more: Any) -> dict[str, Any]:
    answer = running.request("POST", "/api/ask", who, json={"query": QUESTION, **more})
    assert answer.status_code == 200, answer.text
    assert answer.json()["found"], answer.text
    return answer.json()


def share(running: Running, answer: dict[str, Any], who: str = ANN, method: str = "PUT") -> Any:
    return running.request(method, f"/api/answers/{answer['answer_id']}/share", who)


def opened(running: Running, answer: dict[str, Any], who: str) -> Any:
    return running.request("GET", f"/api/answers/{answer['answer_id']}", who)


def test_it_opens_for_who_may_read_every_source(site: Site, running: Running, shared: dict[str, Any]) -> None:
    site.sql("UPDATE documents SET permissions = ARRAY['domain:acme.com']")
    kept = opened(running, shared, BOB).json()
    assert (kept["answer"], kept["query"], kept["own"], kept["asked_by"]) == (shared["answer"], QUESTION, False, ANN)
    running.settle()
    rows = site.sql(
        "SELECT email, action, doc_ids::text[], detail FROM audit_log WHERE starts_with(action, 'answer') ORDER BY at"
    )
    assert [row[:2] for row in rows] == [(ANN, "answer_share"), (BOB, "answer_open")]
    assert set(rows[1][2]) == {source["doc_id"] for source in shared["sources"]}
    assert rows[1][3]["asked_by"] == ANN


def test_a_kept_answer_marks_what_it_quoted_until_its_source_changes(site: Site, running: Running) -> None:
    first, last = (
        "The kettle of the boardroom is descaled on 1 May.",
        "The kettle of the boardroom is descaled on -1 May.",
    )
    text = f"{first} The urn has another day{', which is on its lid' * 20}. {last}"
    site.add("Kitchen", [text], [ANN])
    given = ask(running)
    running.settle()
    assert {text[one["start"] : one["end"]] for one in given["quotes"]} == {first, last}
    kept = opened(running, given, ANN).json()
    assert kept["quotes"] == given["quotes"]
    site.sql("UPDATE answers SET sources = jsonb_set(sources, '{0,marks}', '[[0, 1, 4, 10], [1, 1, 0, 3]]')")
    assert [(one["start"], one["end"]) for one in opened(running, given, ANN).json()["quotes"]] == [(4, 10), (0, 3)]
    site.sql("UPDATE chunks SET text_hash = 'other'")
    located = opened(running, given, ANN).json()["quotes"]
    assert {text[one["start"] : one["end"]] for one in located} == {first}


def test_an_answer_that_is_opened_again_repeats_its_cautions(
    site: Site, running: Running, shared: dict[str, Any]
) -> None:
    running.settle()
    unsure = [{"text": "It is.", "start": 0, "end": 3, "citations": [1], "supported": False, "reason": "words"}]
    site.sql("UPDATE documents SET permissions = ARRAY['domain:acme.com']")
    site.sql(
        "UPDATE answers SET mode = 'model', warnings = '{uncertain,left_out}', sentences = %s",
        msgspec.json.encode(unsure).decode(),
    )
    for who in (ANN, BOB):
        (caution,) = opened(running, shared, who).json()["warnings"]
        assert (caution["code"], caution["message"][:18]) == ("uncertain", "It is not certain "), "counts were of then"
        page = running.request("GET", f"/answers/{shared['answer_id']}", headers=site.session(who)).text
        assert caution["message"] in page
        assert "One sentence is not supported by the sources: it is underlined." in page
    site.sql("UPDATE chunks SET text_hash = 'other'")
    assert opened(running, shared, BOB).json()["warnings"] == []


def test_text_that_was_removed_before_others_could_read_is_not_shown_to_them(site: Site, running: Running) -> None:
    doc_id = site.add("Kitchen", [SECRET, "The kitchen is on the second floor."], [ANN])
    answer = ask(running)
    assert share(running, answer).status_code == 200
    cited = answer["sources"][0]["chunk_id"]
    site.sql("UPDATE chunks SET chunk_text = 'It is descaled.', text_hash = 'other' WHERE chunk_id = %s", cited)
    site.sql("UPDATE documents SET permissions = ARRAY['domain:acme.com'] WHERE doc_id = %s", doc_id)
    kept = opened(running, answer, BOB)
    body = kept.json()
    assert [body[name] for name in ("query", "standalone", "answer", "sentences", "quotes")] == [
        None,
        None,
        None,
        [],
        [],
    ]
    assert (body["changed"], body["revoked"]) == (True, False)
    page = running.http.get(f"/answers/{answer['answer_id']}", headers=site.session(BOB)).text
    assert "A source of this answer has changed since, so its text is shown only to" in page
    for text in (kept.text, page):
        assert "boardroom" not in text
    assert opened(running, answer, ANN).json()["answer"] == answer["answer"]
    assert (
        "it is no longer shown to others"
        in running.http.get(f"/answers/{answer['answer_id']}", headers=site.session(ANN)).text
    )


def test_the_rest_learn_only_how_many_sources_they_may_not_read(running: Running, shared: dict[str, Any]) -> None:
    for who, missing, said in ((BOB, 1, "; you may not read 1 of them"), (EVE, 2, ", none of which you may read")):
        kept = opened(running, shared, who)
        assert kept.status_code == 200
        body = kept.json()
        assert (body["answer"], body["query"], body["standalone"], body["sentences"]) == (None, None, None, [])
        assert [one["status"] for one in body["sources"]].count("revoked") == missing
        page = running.http.get(f"/answers/{shared['answer_id']}", headers=running.site.session(who)).text
        for text in (kept.text, page):
            assert "boardroom" not in text
            assert "Board" not in text
        assert f"This answer cites 2 sources{said}." in page


def test_only_sources_that_are_cited_are_counted(site: Site, running: Running, shared: dict[str, Any]) -> None:
    site.sql(
        "UPDATE answers SET sources = (SELECT jsonb_agg(one || jsonb_build_object('cited', one ->> 'doc_id' = %s))"
        " FROM jsonb_array_elements(sources) AS one)",
        site.sql("SELECT doc_id::text FROM documents WHERE source_title = 'Kitchen'")[0][0],
    )
    for who, said in ((EVE, "cites a source that you may not read"), (BOB, "a document that you may not read")):
        page = running.http.get(f"/answers/{shared['answer_id']}", headers=site.session(who)).text
        assert said in page
        assert "boardroom" not in page


def test_it_is_closed_again(running: Running, shared: dict[str, Any]) -> None:
    assert share(running, shared, BOB, "DELETE").status_code == 404
    assert share(running, shared, ANN, "DELETE").json()["shared_at"] is None
    assert opened(running, shared, BOB).status_code == 404
    assert opened(running, shared, ANN).json()["answer"] == shared["answer"]


def test_off_boarding_ends_it_for_good(site: Site, running: Running, shared: dict[str, Any]) -> None:
    with connect(site.settings.postgres_dsn) as connection:
        offboard(connection, {ANN: "left"}, by="admin@acme.com")
    assert opened(running, shared, BOB).status_code == 404
    detail = site.sql("SELECT detail FROM audit_log WHERE action = 'offboard'")[0][0]
    assert detail["shared_answers"] == [shared["answer_id"]]


def test_an_answer_of_a_conversation_cannot_be_shared(site: Site, running: Running) -> None:
    site.add("Kitchen", [SECRET], [ANN])
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "The safe's code is 1234."}]
    answer = ask(running, conversation_history=history)
    refused = share(running, answer)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-shareable")
    assert opened(running, answer, BOB).status_code == 404


def test_an_answer_from_what_is_not_to_be_shared_is_for_its_owner_alone(site: Site, running: Running) -> None:
    doc_id = site.add("Kitchen", [SECRET], ["domain:acme.com"])
    answer = ask(running)
    assert share(running, answer).status_code == 200
    assert SECRET[:20] in opened(running, answer, BOB).text
    site.sql('UPDATE documents SET tags = \'{"answer_sharing": "Nobody"}\' WHERE doc_id = %s', doc_id)
    assert opened(running, answer, BOB).json()["answer"] is None
    assert "boardroom" not in opened(running, answer, BOB).text
    assert opened(running, answer, ANN).json()["answer"] == answer["answer"]
    refused = share(running, ask(running))
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-shareable")


def test_nobody_shares_or_opens_what_is_not_shared(site: Site, running: Running) -> None:
    site.add("Kitchen", [SECRET], ["domain:acme.com"])
    answer = ask(running)
    unknown = {"answer_id": "00000000-0000-4000-8000-000000000000"}
    for one in (answer, unknown, {"answer_id": "nonsense"}):
        assert share(running, one, BOB).status_code == 404
        assert opened(running, one, BOB).status_code == 404
        page = running.http.get(f"/answers/{one['answer_id']}", headers=site.session(BOB))
        assert (page.status_code, "no such answer" in page.text) == (404, True)


def test_each_person_lists_their_own_questions(site: Site, running: Running) -> None:
    site.add("Kitchen", [SECRET], ["domain:acme.com"])
    mine = [ask(running)["answer_id"] for _ in range(3)]
    theirs = ask(running, BOB)["answer_id"]
    first = running.request("GET", "/api/answers?limit=2", ANN).json()
    rest = running.request("GET", f"/api/answers?limit=2&cursor={first['next_cursor']}", ANN).json()
    assert [one["answer_id"] for one in first["answers"] + rest["answers"]] == mine[::-1]
    assert rest["next_cursor"] is None
    assert [one["answer_id"] for one in running.request("GET", "/api/answers", BOB).json()["answers"]] == [theirs]
    page = running.http.get("/history", headers=site.session(ANN)).text
    assert page.count(f">{QUESTION}</a>") == 3
    assert theirs not in page
    assert "have not asked" in running.http.get("/history", headers=site.session(EVE)).text


def test_one_deletes_ones_own_questions_alone(site: Site, running: Running, shared: dict[str, Any]) -> None:
    address = f"/api/answers/{shared['answer_id']}"
    site.sql("UPDATE documents SET permissions = ARRAY['domain:acme.com']")
    assert running.request("DELETE", address, BOB).status_code == 404
    assert opened(running, shared, BOB).status_code == 200
    assert running.request("DELETE", address, ANN).json() == {"answer_id": shared["answer_id"], "status": "deleted"}
    for who in (ANN, BOB):
        assert opened(running, shared, who).status_code == 404
    assert [running.request("DELETE", one, ANN).status_code for one in (address, "/api/answers/nonsense")] == [404, 404]
    assert running.request("GET", "/api/answers", ANN).json()["answers"] == []
    running.settle()
    rows = site.sql("SELECT email, detail FROM audit_log WHERE action = 'answer_delete'")
    assert rows == [(ANN, {"answer_id": shared["answer_id"]})]


def test_the_history_is_searched_and_pages_keep_the_words(site: Site, running: Running) -> None:
    site.add("Kitchen", [SECRET], ["domain:acme.com"])
    for query in ("Who descales the kettle?", "When is tea?", "Is 100% of the KETTLE_ steel?"):
        running.request("POST", "/api/ask", ANN, json={"query": query})
    running.settle()

    def listed(words: str, who: str = ANN) -> list[str]:
        answer = running.http.get("/history", params={"q": words}, headers=site.session(who))
        return [one.text() for one in LexborHTMLParser(answer.text).css(".rows a")]

    assert listed("kettle") == ["Is 100% of the KETTLE_ steel?", "Who descales the kettle?"]
    assert listed("100%") == listed("kettle_") == ["Is 100% of the KETTLE_ steel?"]
    assert listed("coffee") == listed("kettle", BOB) == []
    assert len(listed("\x00 ")) == 3
    page = running.http.get("/history", headers=site.session(ANN)).text
    assert re.search(r"\d{1,2} \w{3} \d{4}, \d\d:\d\d UTC</time>", page)
