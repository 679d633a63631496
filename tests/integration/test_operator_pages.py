"""The pages of sources and administration, and the routes behind them: who may what, what auditors don't see, and hostile names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from selectolax.lexbor import LexborHTMLParser

from resources.core.domain import Role
from resources.core.errors import NotRunningError
from resources.settings import Settings
from resources.settings.limits import RetentionSettings
from resources.settings.variables import variable_of
from resources.stores.postgres import session
from serving.identity import api_keys
from tests.fixtures.serving import Running, Site

PEOPLE = {role.value: f"{role.value}@acme.com" for role in Role} | {"user": "user@acme.com"}
SCRIPT = "<script>alert(1)</script>"
CHANNEL, DOCUMENT, REASON = f"general {SCRIPT}", f"C1/plan {SCRIPT}", f"broken {SCRIPT}"
PAGES = {
    "/sources": set(PEOPLE),
    "/sources/slack": {"administrator", "operator", "auditor"},
    "/sources/slack/set-up": {"administrator", "operator"},
    "/sources/files/set-up": {"administrator", "operator"},
    "/admin": {"administrator", "auditor"},
    "/admin/usage": {"administrator", "auditor", "curator", "operator"},
    "/admin/questions": {"administrator", "curator"},
    "/admin/feedback": {"administrator", "curator"},
    "/admin/take-downs": {"administrator", "curator"},
    "/admin/keys": {"administrator"},
    "/admin/sessions": {"administrator"},
    "/admin/agents": {"administrator"},
    "/admin/policies": {"administrator"},
}
SESSION = "00000000-0000-4000-8000-00000000dead"
ACTIONS: dict[tuple[str, str], tuple[set[str], Any]] = {
    ("GET", "/api/held-deletions"): ({"administrator", "operator", "auditor"}, None),
    ("POST", "/api/held-deletions/slack"): ({"administrator", "operator"}, {"decision": "reject", "partition": "C9"}),
    ("POST", "/api/sources/slack/check"): ({"administrator", "operator"}, {"settings": {"slack_bot_token": "none"}}),
    ("POST", "/api/sources/slack/places"): ({"administrator", "operator"}, {"settings": {"slack_bot_token": "none"}}),
    ("GET", "/api/questions"): ({"administrator", "curator"}, None),
    ("POST", "/api/questions/9"): ({"administrator", "curator"}, {"decision": "accept"}),
    ("POST", f"/api/feedback/{SESSION}/question"): ({"administrator", "curator"}, {"document": SESSION}),
    ("GET", "/api/admin/keys"): ({"administrator"}, None),
    ("DELETE", "/api/admin/keys/none"): ({"administrator"}, None),
    ("GET", "/api/admin/sessions"): ({"administrator"}, None),
    ("DELETE", f"/api/admin/sessions/{SESSION}"): ({"administrator"}, None),
    ("GET", "/api/admin/agents"): ({"administrator"}, None),
    ("DELETE", f"/api/admin/agents/{SESSION}"): ({"administrator"}, None),
}


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    """Slack with a channel from which seven of eight documents are gone, and a sync with an error."""
    holders = {role.value: [PEOPLE[role.value]] for role in Role}
    roles = Settings(_env_file=None, roles=json.dumps(holders)).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles, "slack_bot_token": SecretStr("xoxb-test")})
    site.sql("INSERT INTO partitions (source, partition, title) VALUES ('slack', 'C1', %s)", CHANNEL)
    for number in range(8):
        site.sql(
            "INSERT INTO documents (doc_id, source, source_id, partition, source_title, state)"
            " VALUES (gen_random_uuid(), 'slack', %s, 'C1', 'x', 'live')",
            f"{DOCUMENT} {number}",
        )
    site.sql(
        "INSERT INTO held_deletions (source, partition, source_id) SELECT 'slack', 'C1', source_id FROM documents"
        " WHERE source_id <> %s",
        f"{DOCUMENT} 0",
    )
    site.sql(
        "INSERT INTO sync_jobs (source, status, completed_at, synced, failed) VALUES ('slack', 'success', now(), 8, 1)"
    )
    site.sql(
        "INSERT INTO sync_errors (job_id, source_id, stage, reason) SELECT job_id, %s, 'raw', %s FROM sync_jobs",
        DOCUMENT, REASON,
    )  # fmt: skip
    with site.running() as running:
        yield running


def fetched(running: Running, path: str, who: str) -> httpx.Response:
    return running.http.get(path, headers=running.site.session(PEOPLE[who]))


def shown(running: Running, path: str, who: str) -> LexborHTMLParser:
    answer = fetched(running, path, who)
    assert answer.status_code == 200, answer.text
    return LexborHTMLParser(answer.text)


def text(running: Running, path: str, who: str) -> str:
    return shown(running, path, who).css_first("body").text()


def test_the_button_of_a_delayed_sync_does_not_say_that_it_runs(running: Running) -> None:
    running.site.sql("INSERT INTO sync_jobs (source, status, stage) VALUES ('slack', 'running', 'delayed')")
    page = LexborHTMLParser(running.request("GET", "/sources", PEOPLE["operator"]).text)
    assert [button.text() for button in page.css("[data-sync=slack]")] == ["Delayed …"]


def test_each_page_opens_for_its_roles_and_refuses_others_in_words(running: Running, site: Site) -> None:
    statuses = {path: {who: fetched(running, path, who).status_code for who in PEOPLE} for path in PAGES}
    assert statuses == {path: {who: 200 if who in roles else 403 for who in PEOPLE} for path, roles in PAGES.items()}
    assert "auditor or administrator" in fetched(running, "/admin", "operator").text
    assert "role administrator" in fetched(running, "/admin/keys", "auditor").text
    for path in ("/admin", "/admin/policies"):
        text = fetched(running, path, "user").text
        assert ("Ask an administrator for access." in text, "CONCORDANCE" in text) == (True, False)
    for path in PAGES:
        assert running.http.get(path).status_code == 401
    running.settle()
    refused = sum(len(PEOPLE) - len(roles) for roles in PAGES.values()) + 4
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'role_denied'") == [(refused,)]


def test_a_set_up_page_says_that_its_checks_need_scripts(running: Running) -> None:
    for source in ("slack", "files"):
        assert "The checks need scripts." in fetched(running, f"/sources/{source}/set-up", "operator").text


def test_each_action_is_refused_without_its_role(running: Running) -> None:
    for (method, path), (roles, body) in ACTIONS.items():
        more = {} if body is None else {"json": body}
        for who, email in PEOPLE.items():
            answer = running.request(method, path, email, **more)
            assert (answer.status_code != 403) == (who in roles), (method, path, who, answer.text)


def test_the_navigation_names_what_a_person_may_open(running: Running) -> None:
    links = {who: [one.text() for one in shown(running, "/", who).css("header nav a")] for who in PEOPLE}
    assert [who for who in PEOPLE if "Sources" in links[who]] == ["administrator", "auditor", "operator"]
    assert [who for who in PEOPLE if "Admin" in links[who]] == ["administrator", "auditor", "operator", "curator"]


def test_people_without_a_role_see_no_names_and_no_totals_of_others(running: Running) -> None:
    said = fetched(running, "/sources", "user").text
    assert "general" not in said
    assert "plan" not in said
    assert {one.text() for one in shown(running, "/sources", "user").css(".source .head span")} == {"0 documents"}


def test_auditors_see_states_and_no_documents_and_cannot_act(running: Running) -> None:
    page = shown(running, "/sources", "auditor")
    assert "7 of 8 documents are gone" in page.css_first(".attention").text()
    assert "plan" not in page.css_first("body").text()
    assert page.css("main button") == []
    (held,) = running.request("GET", "/api/held-deletions", PEOPLE["auditor"]).json()["held"]
    assert (held["documents"], held["of_documents"], held["examples"]) == (7, 8, [])


def test_names_and_reasons_are_text(running: Running, site: Site) -> None:
    site.sql("INSERT INTO audit_log (email, action, query) VALUES (%s, %s, %s)", SCRIPT, SCRIPT, SCRIPT)
    site.sql("INSERT INTO audit_log (email, action, detail) VALUES ('x', 'y', %s)", json.dumps({SCRIPT: [SCRIPT]}))
    site.sql("UPDATE source_states SET paused_at = now(), paused_reason = %s", SCRIPT)
    site.sql("INSERT INTO api_keys (key_id, key_hash, email) VALUES ('k', 'h', %s)", SCRIPT)
    site.agent(SCRIPT, SCRIPT)
    for path in ("/sources", "/sources/slack", "/admin", "/admin/keys", "/admin/sessions", "/admin/agents"):
        answer = fetched(running, path, "administrator")
        assert SCRIPT not in answer.text, path
        assert all(one.attributes.get("src") for one in LexborHTMLParser(answer.text).css("script"))
        assert "unsafe" not in answer.headers["content-security-policy"]
    said = text(running, "/sources", "operator")
    assert CHANNEL in said
    assert DOCUMENT in said
    assert REASON in said
    assert SCRIPT in text(running, "/admin", "auditor")
    assert f"Revoke the key of {SCRIPT}?" in [
        one.attributes["data-title"] for one in shown(running, "/admin/keys", "administrator").css("[data-title]")
    ]


def test_a_source_that_is_set_up_is_browsed_with_its_own_credentials(site: Site) -> None:
    changes = {"drive_token": SecretStr("ya29-secret"), "drive_roots": ("my_drive", "0ATeam")}
    roles = Settings(_env_file=None, roles=json.dumps({"operator": [PEOPLE["operator"]]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles, **changes})
    with site.running() as running:
        page = shown(running, "/sources/google_drive/set-up", "operator")
        assert [one.attributes["data-roots"] for one in page.css("form[data-roots]")] == ["my_drive,0ATeam"]
        assert "ya29-secret" not in (page.html or "")
        assert shown(running, "/sources/slack/set-up", "operator").css("form[data-check]:not(:has(input))") == []


def test_syncs_lead_to_their_runs_in_dagster_if_browsers_reach_it(site: Site) -> None:
    roles = Settings(_env_file=None, roles=json.dumps({one: [PEOPLE[one]] for one in ("operator", "auditor")})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    changes = {"roles": roles, "slack_bot_token": SecretStr("xoxb-test")}
    site.sql("INSERT INTO sync_jobs (source, status, completed_at, run_id) VALUES ('slack', 'success', now(), 'r1')")
    for address, links in (("https://dagster.example", ["/dagster?next=%2Fruns%2Fr1"]), (None, [])):
        more = {"dagster_public_url": address, "dagster_url": "http://dagster.internal"}
        site.settings = site.settings.model_copy(update=changes | more)
        with site.running() as running:
            found = {
                who: [
                    one.attributes["href"] for one in shown(running, "/sources/slack", who).css("a[href^='/dagster?']")
                ]
                for who in ("operator", "auditor")
            }
            assert found == {"operator": links, "auditor": []}, "runs show auditors nothing"
            if links:
                opened = fetched(running, links[0], "operator").headers["location"]
                assert opened.startswith("https://dagster.example/runs/r1?")


def test_a_source_that_is_opened_by_itself_is_shown_on_the_page_of_all(running: Running) -> None:
    """The card alone, for the script, has neither a style nor a navigation."""

    def opened(source: str) -> httpx.Response:
        return running.request(
            "GET", f"/sources/{source}", PEOPLE["auditor"], headers={"Accept": "text/html,*/*;q=0.8"}
        )

    answer = opened("slack")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sources#source-slack")
    assert shown(running, "/sources", "auditor").css_first("#source-slack") is not None
    assert opened("none").status_code == 404


def test_days_of_syncs_are_drawn_with_the_longest_time_between_them(running: Running, site: Site) -> None:
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, completed_at, synced)"
        " SELECT 'slack', 'success', at, at + interval '1 min', 7 FROM generate_series(now() - interval '4 days', now()"
        " - interval '1 day', interval '20 min') AS s (at)"
    )
    page = shown(running, "/sources/slack", "auditor")
    plots = {one.attributes["aria-label"] or "": one.css("rect") for one in page.css("figure svg")}
    (gaps,) = (bars for label, bars in plots.items() if label.startswith("Longest time between syncs by day"))
    (read,) = (bars for label, bars in plots.items() if label.startswith("Documents read by day"))
    assert (len(gaps), len(read)) == (5, 5)
    assert ["at most 20 min" in one.text() for one in gaps[1:-2]] == [True, True]


def test_approved_deletions_are_carried_out_by_a_sync(running: Running, site: Site) -> None:
    def decide(decision: str, **more: str) -> httpx.Response:
        body = {"decision": decision, **more}
        return running.request("POST", "/api/held-deletions/slack", PEOPLE["operator"], json=body)

    assert decide("approve", partition="C9").status_code == 404
    answer = decide("approve", partition="C1").json()
    assert answer["partitions"] == [{"partition": "C1", "documents": 7}]
    assert answer["job_id"].endswith("1")
    assert [one["source"].value for one in site.launcher.calls] == ["slack"]
    assert site.sql("SELECT DISTINCT approved_by FROM held_deletions") == [(PEOPLE["operator"],)]
    assert decide("approve").status_code == 404
    assert f"{PEOPLE['operator']} approved" in text(running, "/sources", "auditor")
    assert decide("reject").json()["partitions"] == [{"partition": "C1", "documents": 7}]
    rows = site.sql("SELECT email, detail FROM audit_log WHERE action = 'held_deletions_decided' ORDER BY event_id")
    assert [(email, one["decision"], one["documents"]) for email, one in rows] == [
        (PEOPLE["operator"], "approve", {"C1": 7}),
        (PEOPLE["operator"], "reject", {"C1": 7}),
    ]


def test_only_deletions_that_were_shown_are_approved(running: Running, site: Site) -> None:
    """A sync may hold more of them between the look at the page and the decision."""
    button = shown(running, "/sources", "operator").css_first("[data-decide=approve]")
    site.sql("UPDATE held_deletions SET held_at = now() WHERE source_id = %s", f"{DOCUMENT} 1")
    body = {"decision": "approve", "partition": "C1", "last_held_at": button.attributes["data-until"]}
    answer = running.request("POST", "/api/held-deletions/slack", PEOPLE["operator"], json=body).json()
    assert (answer["partitions"], answer["left"]) == ([{"partition": "C1", "documents": 6}], 1)
    assert "1 more" in answer["message"]
    assert site.sql("SELECT source_id FROM held_deletions WHERE approved_at IS NULL") == [(f"{DOCUMENT} 1",)]
    approved, held = running.request("GET", "/api/held-deletions", PEOPLE["operator"]).json()["held"]
    assert [(one["documents"], one["approved_by"]) for one in (approved, held)] == [(6, PEOPLE["operator"]), (1, None)]
    for last, documents in ((held["last_held_at"], 1), (None, 6)):
        body |= {"decision": "reject", "last_held_at": last}
        answer = running.request("POST", "/api/held-deletions/slack", PEOPLE["operator"], json=body).json()
        assert (answer["partitions"], answer["left"]) == ([{"partition": "C1", "documents": documents}], 0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"busy": "j1"}, "the next one deletes them"),
        ({"error": NotRunningError("Dagster is away.")}, "Dagster is away"),
    ],
)
def test_an_approval_counts_if_no_sync_can_start(
    running: Running, site: Site, fault: dict[str, Any], said: str
) -> None:
    for name, value in fault.items():
        setattr(site.launcher, name, value)
    answer = running.request("POST", "/api/held-deletions/slack", PEOPLE["operator"], json={"decision": "approve"})
    assert said in answer.json()["message"]
    assert site.sql("SELECT count(*) FROM held_deletions WHERE approved_at IS NOT NULL") == [(7,)]


def test_a_list_that_is_cut_says_so(running: Running, site: Site) -> None:
    for path in ("/admin/sessions", "/admin/agents", "/admin/questions"):
        assert not shown(running, path, "administrator").css("[data-cut]")
    site.session("ann@acme.com")
    site.agent("ann@acme.com", "Claude")
    site.sql(
        "INSERT INTO sessions SELECT made.* FROM (SELECT to_jsonb(s) AS it FROM sessions AS s LIMIT 1) AS one,"
        " generate_series(1, 1000) AS n, jsonb_populate_record(NULL::sessions, one.it"
        " || jsonb_build_object('session_id', gen_random_uuid(), 'secret_hash', md5(n::text))) AS made"
    )
    site.sql(
        "INSERT INTO agents SELECT made.* FROM (SELECT to_jsonb(a) AS it FROM agents AS a LIMIT 1) AS one,"
        " generate_series(1, 1000) AS n,"
        " jsonb_populate_record(NULL::agents, one.it || jsonb_build_object('agent_id', md5(n::text)::uuid)) AS made"
    )
    site.sql(
        "INSERT INTO questions (question, doc_ids, email, state, origin, added_by) SELECT 'Q' || n,"
        " ARRAY[gen_random_uuid()], 'ann@acme.com', 'proposed', 'feedback', 'x' FROM generate_series(1, 51) AS n"
    )
    said = {
        path: [one.text() for one in shown(running, path, "administrator").css("[data-cut]")]
        for path in ("/admin/sessions", "/admin/agents", "/admin/questions")
    }
    assert {path: [one[:14] for one in lines] for path, lines in said.items()} == {
        "/admin/sessions": ["The latest 1,0"],
        "/admin/agents": ["The latest 1,0"],
        "/admin/questions": ["The first 50. "],
    }


def test_administrators_revoke_keys_and_end_sessions(running: Running, site: Site) -> None:
    with session(site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, "bot@acme.com")
    cookie = site.session("ann@acme.com")
    key_id = key.split("_")[1]
    assert key_id in text(running, "/admin/keys", "administrator")
    assert key.split("_", 2)[2] not in fetched(running, "/admin/keys", "administrator").text
    admin = PEOPLE["administrator"]
    (listed,) = (
        one
        for one in running.request("GET", "/api/admin/sessions", admin).json()["sessions"]
        if one["email"] == "ann@acme.com"
    )
    for path in (f"/api/admin/keys/{key_id}", f"/api/admin/sessions/{listed['session_id']}"):
        assert running.request("DELETE", path, admin).status_code == 200
        assert running.request("DELETE", path, admin).status_code == 404
    assert running.http.get("/api/me", headers={"X-API-Key": key}).status_code == 401
    assert running.http.get("/api/me", headers={**cookie, "X-Concordance": "1"}).status_code == 401
    running.settle()
    rows = site.sql("SELECT email, action, detail ->> 'by' FROM audit_log WHERE detail ->> 'by' IS NOT NULL ORDER BY 2")
    assert rows == [("bot@acme.com", "key_revoke", admin), ("ann@acme.com", "session_ended", admin)]


def test_administrators_end_agents_of_anyone(running: Running, site: Site) -> None:
    admin, ann = PEOPLE["administrator"], "ann@acme.com"
    agent_id, other = site.agent(ann, "Claude"), site.agent("bob@acme.com", "Cursor")
    said = text(running, "/admin/agents", "administrator")
    assert all(one in said for one in (ann, "Claude", "bob@acme.com", "Cursor", "agent.example"))
    listed = running.request("GET", "/api/admin/agents", admin).json()["agents"]
    assert {(one["agent_id"], one["email"], one["name"]) for one in listed} == {
        (agent_id, ann, "Claude"),
        (other, "bob@acme.com", "Cursor"),
    }
    for path in (f"/api/admin/agents/{agent_id}", "/api/admin/agents/none"):
        assert running.request("DELETE", path, ann).status_code == 403
    assert running.request("DELETE", f"/api/admin/agents/{agent_id}", admin).json()["status"] == "ended"
    assert running.request("DELETE", f"/api/admin/agents/{agent_id}", admin).status_code == 404
    assert running.request("DELETE", "/api/admin/agents/none", admin).status_code == 404
    assert site.sql("SELECT agent_id::text FROM agents") == [(other,)]
    running.settle()
    rows = site.sql("SELECT email, detail ->> 'by', detail ->> 'reason' FROM audit_log WHERE action = 'agent_ended'")
    assert rows == [(ann, admin, "ended by an administrator")]


def test_the_audit_page_filters_and_goes_on(running: Running, site: Site) -> None:
    for number in range(55):
        site.sql(
            "INSERT INTO audit_log (at, email, action) VALUES ('2025-05-04T12:00Z', %s, 'open')", f"p{number}@x.eu"
        )
    page = shown(running, "/admin?action=open&since=2025-05-04&until=2025-05-04", "auditor")
    assert len(page.css("tbody tr")) == 50
    older = page.css_first("a.button.quiet").attributes["href"] or ""
    assert len(shown(running, older, "auditor").css("tbody tr")) == 5
    assert "No event matches" in text(running, "/admin?action=open&until=2025-05-03", "auditor")
    assert len(shown(running, "/admin?email=P7@x.eu", "auditor").css("tbody tr")) == 1
    site.sql("UPDATE audit_log SET email = %s WHERE email = 'p8@x.eu'", "j\u00f6rg@x.eu")
    assert len(shown(running, "/admin?email=JO\u0308rg@x.eu", "auditor").css("tbody tr")) == 1
    assert fetched(running, "/admin?since=yesterday", "auditor").status_code == 400
    running.settle()
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'audit_read'") == [(5,)]


def test_curators_decide_on_questions_and_see_titles_of_readable_documents_only(running: Running, site: Site) -> None:
    curator = PEOPLE["curator"]
    mine = site.add("Leave rules", ["Six days of leave move to the next year."], [curator])
    hidden = site.add("Secret plan", ["The secret plan."], ["ceo@acme.com"])
    for number, (state, documents) in enumerate((("proposed", [mine, hidden]), ("accepted", [hidden]))):
        site.sql(
            "INSERT INTO questions (question, doc_ids, email, state, origin, added_by) VALUES (%s, %s::uuid[], 'ann@acme.com', %s,"
            " 'feedback', 'ann@acme.com')",
            f"Question {number} {SCRIPT}", documents, state,
        )  # fmt: skip
    site.sql(
        "INSERT INTO evaluations (collection, model, questions, recall_10, never, leaks) VALUES ('c', 'small', 2, 0.5, 0, 0)"
    )
    found = running.request("GET", "/api/questions", curator).json()["questions"]
    assert [(one["state"], one["documents"], one["titles"]) for one in found] == [
        ("proposed", 2, ["Leave rules"]),
        ("accepted", 1, []),
    ]
    first = running.request("GET", "/api/questions?limit=1", curator).json()
    rest = running.request("GET", f"/api/questions?limit=1&cursor={first['next_cursor']}", curator).json()
    assert (first["questions"] + rest["questions"], rest["next_cursor"]) == (found, None)
    page = fetched(running, "/admin/questions", "curator").text
    assert ("Leave rules" in page, "0.500" in page) == (True, True)
    assert "Secret" not in page
    assert SCRIPT not in page

    path = f"/api/questions/{found[0]['id']}"
    assert running.request("POST", path, curator, json={"decision": "accept"}).status_code == 200
    assert (
        running.request("POST", path, curator, json={"decision": "accept"}).status_code == 404
    )  # it was accepted already
    assert running.request("POST", path, curator, json={"decision": "remove"}).status_code == 200
    assert running.request("POST", path, curator, json={"decision": "remove"}).status_code == 404
    assert site.sql("SELECT state FROM questions") == [("accepted",)]
    running.settle()
    decided = "SELECT email, detail->>'decision' FROM audit_log WHERE action = 'question_decided' ORDER BY event_id"
    assert site.sql(decided) == [(curator, "accept"), (curator, "remove")]


def test_policies_name_the_variables_that_change_them(running: Running) -> None:
    page = running.http.get("/admin/policies", headers=running.site.session(PEOPLE["administrator"])).text
    assert "<td>7 days</td>" in page
    named = set(re.findall(r"<code>(CONCORDANCE_RETENTION__\w+)</code>", page))
    assert named == {variable_of(name) for name in RetentionSettings.model_fields}
