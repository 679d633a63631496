"""The pages of one's uploads and of one's account, and the export, as HTML and JSON: each shows the visitor's own alone."""

from __future__ import annotations

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site
from tests.integration.test_documents_http import upload
from tests.integration.test_search_page import ANN, BOB, SCRIPT, fetched, page


def own(site: Site, title: str, owner: str, *readers: str) -> str:
    return site.add(
        title,
        ["The kettle."],
        [owner, *readers],
        source=SourceName.UPLOAD,
        source_id=f"{owner}:{title}",
        author=owner,
        owner=owner,
    )


def test_the_upload_page_lists_ones_own_uploads_and_names_the_limits(site: Site, running: Running) -> None:
    mine = own(site, f"Tea {SCRIPT}", ANN)
    own(site, "Coffee", BOB, ANN)
    answer = fetched(running, "/upload")
    assert SCRIPT not in answer.text
    shown = page(running, "/upload")
    assert [one.attributes["href"] for one in shown.css("#mine a")] == [f"/documents/{mine}"]
    assert "50 MB" in shown.css_first(".drop").text()
    assert ".pdf" in (shown.css_first("#files").attributes["accept"] or "").split(",")
    part = fetched(running, "/upload", BOB, **{"X-Part": "1"})
    assert "Coffee" in part.text
    assert "<html" not in part.text
    assert fetched(running, "/upload", None).status_code == 401


def test_many_uploads_are_listed_page_by_page(site: Site, running: Running) -> None:
    for number in range(23):
        own(site, f"Tea {number}", ANN)
    first = page(running, "/upload")
    second = page(running, first.css_first("#mine .button").attributes["href"] or "")
    assert [len(one.css("#mine li")) for one in (first, second)] == [20, 3]
    assert second.css_first("#mine .button") is None


def test_the_account_page_says_what_counts_and_where_it_comes_from(site: Site, running: Running) -> None:
    site.sql(
        "INSERT INTO directory (source, email, principal, through, read_at) VALUES"
        " ('scim', %s, 'group:crew@acme.com', 'all@acme.com', now() - interval '2 hours')",
        ANN,
    )
    site.sql("INSERT INTO source_states (source, directory_at) VALUES ('scim', now() - interval '3 days')")
    site.session(BOB)
    here = site.session(ANN)
    site.session(ANN)
    agent_id = site.agent(ANN, SCRIPT)
    site.agent(BOB, "Agent of another")
    shown = page_of(running, here)
    assert SCRIPT not in shown
    assert "agent.example" in shown
    assert "Agent of another" not in shown
    assert "Group crew@acme.com" in shown
    assert "read 2 h ago" in shown
    assert "through all@acme.com" in shown
    assert "This browser" in shown
    assert BOB not in shown
    ended = [one.attributes["data-delete"] or "" for one in page(running, "/me").css("[data-delete]")]
    assert [one.startswith("/api/sessions/") for one in ended] == [True, True, False]
    assert ended[-1] == f"/api/agents/{agent_id}"
    assert page(running, "/me", None, 401).css("[data-delete]") == []


def page_of(running: Running, session: dict[str, str]) -> str:
    return running.http.get("/me", headers=session).text


def test_without_scripts_the_account_page_says_what_needs_them(site: Site, running: Running) -> None:
    assert "Making a key needs scripts." in page(running, "/me", ANN).css_first("noscript").html


def test_the_export_holds_what_is_stored_of_the_caller_alone(site: Site, running: Running) -> None:
    for who, name in ((ANN, "tea.md"), (BOB, "coffee.md")):
        upload(running, who, name, name.encode())
        site.add(f"Notes of {who}", ["The kettle is descaled on Fridays."], [who])
        assert running.request("POST", "/api/ask", who, json={"query": f"When does {who} descale?"}).status_code == 200
    running.settle()
    answer = fetched(running, "/api/me/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="concordance-export.json"'
    body = answer.json()
    assert [one["file_name"] for one in body["uploads"]] == ["tea.md"]
    assert [one["query"] for one in body["questions"]] == [f"When does {ANN} descale?"]
    assert {one["action"] for one in body["events"]} == {"ask"}
    assert not {"doc_ids", "detail"} & {name for one in body["events"] for name in one}
    assert body["identity"]["email"] == ANN
    assert "descaled" not in answer.text, "answers quote documents"
    assert BOB not in answer.text
    running.settle()
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'export' AND email = %s", ANN) == [(1,)]
    assert running.http.get("/api/me/export").status_code == 401
