"""Tokens, the rate limit, search plans, log masking, multipart parsing and file names, without a server."""

from __future__ import annotations

import itertools
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from qdrant_client import models

from resources.core.bm25 import SparseVector
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.logging import log_to_stderr, logger, mask, mask_event
from resources.servers.shared import Shared
from resources.settings import Settings
from resources.stores.qdrant import async_client
from resources.stores.qdrant_search import batch_body
from serving.documents.files import UploadMetadata, clean_name, parse_metadata
from serving.documents.multipart import Multipart
from serving.http import errors
from serving.http.database import Database
from serving.http.monitor import StatusMonitor
from serving.http.rate_limit import RateLimit
from serving.identity import tokens
from serving.identity.directory import Directory
from serving.identity.withheld import WithheldReads
from serving.search.filters import DateRange, Filters, narrowing
from serving.search.retrieval import cache
from serving.search.retrieval.depth import first_depth
from serving.search.retrieval.plan import queries
from serving.search.retrieval.query import LeftOut, Narrowing, SearchQuery, normalise, search_query
from sql.serving_rows import Figure

KEY, OTHER = "k" * 64, "o" * 64
ANN = Access(email="ann@acme.com", principals=frozenset({"ann@acme.com", "domain:acme.com", "public"}))
BOB = Access(email="bob@acme.com", principals=frozenset({"bob@acme.com", "domain:acme.com", "public"}))


def test_a_token_normalises_email_domain_and_groups() -> None:
    access = tokens.verify(tokens.encode(KEY, "Ann@Acme.COM", ["Eng@Acme.com"], admin=True), KEY)
    assert access.email == "ann@acme.com"
    assert access.principals == {"ann@acme.com", "domain:acme.com", "group:eng@acme.com", "public"}
    assert access.admin


def _claims(**change: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    claims = {
        "iss": "concordance",
        "aud": "concordance",
        "sub": "ann@acme.com",
        "iat": now,
        "exp": now + timedelta(hours=1),
    }
    return {name: value for name, value in (claims | change).items() if value is not None}


@pytest.mark.parametrize(
    ("token", "slug"),
    [
        (tokens.encode(KEY, "ann@acme.com", expires=timedelta(hours=-1)), "token-expired"),
        (tokens.encode(OTHER, "ann@acme.com"), "token-signature"),
        ("not.a.token", "token-malformed"),
        ("rubbish", "token-malformed"),
        (jwt.encode(_claims(), "", algorithm="none"), "token-signature"),
        (jwt.encode(_claims(), KEY, algorithm="HS512"), "token-signature"),
        (jwt.encode(_claims(aud="elsewhere"), KEY), "token-invalid"),
        (jwt.encode(_claims(iss="elsewhere"), KEY), "token-invalid"),
        (jwt.encode(_claims(exp=None), KEY), "token-invalid"),
        (jwt.encode(_claims(iat=None), KEY), "token-invalid"),
        (jwt.encode(_claims(sub="no email"), KEY), "token-invalid"),
        (jwt.encode(_claims(groups="eng"), KEY), "token-invalid"),
        (jwt.encode(_claims(groups=["a b"]), KEY), "token-invalid"),
    ],
)
def test_each_bad_token_has_its_own_problem(token: str, slug: str) -> None:
    with pytest.raises(errors.UnauthorizedError) as caught:
        tokens.verify(token, KEY)
    assert caught.value.slug == slug
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer ")


def test_a_group_that_looks_like_an_email_grants_no_email() -> None:
    access = tokens.verify(tokens.encode(KEY, "eve@other.com", ["ann@acme.com"]), KEY)
    assert "ann@acme.com" not in access.principals
    assert "domain:acme.com" not in access.principals


def test_the_admin_claim_must_be_true() -> None:
    assert not tokens.verify(jwt.encode(_claims(admin="true"), KEY), KEY).admin


def test_a_token_that_was_accepted_still_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.encode(KEY, "ann@acme.com", expires=timedelta(minutes=1))
    assert tokens.verify(token, KEY) == tokens.verify(token, KEY)
    now = time.time()
    monkeypatch.setattr(tokens.time, "time", lambda: now + 90)
    with pytest.raises(errors.UnauthorizedError, match="expired"):
        tokens.verify(token, KEY)
    with pytest.raises(errors.UnauthorizedError, match="another key"):
        tokens.verify(token, OTHER)


def test_a_token_requires_a_valid_email() -> None:
    with pytest.raises(InvalidRequestError):
        tokens.encode(KEY, "nobody")


def test_the_rate_limit_is_per_caller_and_refills() -> None:
    now = [0.0]
    limit = RateLimit(2, Shared.alone(), "test", clock=lambda: now[0])
    assert [limit.take("a"), limit.take("a")] == [0, 0]
    assert limit.take("a") == pytest.approx(30)
    assert limit.take("b") == 0
    now[0] = 30
    assert limit.take("a") == 0


def test_what_is_left_of_a_rate_limit_is_told_with_the_time_until_there_is_more() -> None:
    limit = RateLimit(3, Shared.alone(), "test", clock=lambda: 0.0)
    assert [limit.spend("a")[1:] for _ in range(4)] == [(2, 20), (1, 40), (0, 20), (0, 20)]


def test_the_rate_limit_remembers_a_bounded_number_of_callers() -> None:
    ticks = itertools.count()
    limit = RateLimit(1, Shared.alone(), "test", clock=lambda: next(ticks) / 1e6)
    assert limit.take("first") == 0
    for part in range(20):
        assert all(limit.take(f"{part} {number}") == 0 for number in range(2_000))
        assert limit.take("first") > 0
    assert limit.take("0 0") == 0


def test_no_query_and_no_prefetch_goes_without_the_callers_principals() -> None:
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    wanted = narrowing(Filters(mime_types=["text/csv"]))
    batch = queries(
        search_query("x", ANN, settings, limit=5, narrowing=wanted), [0.1], SparseVector([1], [1.0]), with_payload=False
    )
    searches = msgspec.json.decode(batch_body(batch))["searches"]
    filters = [one["filter"] for request in searches for one in (request, request.get("prefetch")) if one]
    assert len(filters) == 6
    for condition in filters:
        first = condition["must"][0]
        assert first["key"] == "permissions"
        assert set(first["match"]["any"]) == ANN.principals
    models.QueryRequestBatch.model_validate({"searches": searches})


def test_the_cache_key_holds_the_principals_and_the_whole_plan() -> None:
    def made(access: Access, text: str = "x", **more: Any) -> SearchQuery:
        return search_query(text, access, Settings(_env_file=None), **{"limit": 5} | more)  # type: ignore[call-arg]

    wanted: list[dict[str, Any]] = [
        {},
        {"text": "y"},
        {"mode": "vector"},
        {"fusion": "rrf"},
        {"depth": 60},
        {"narrowing": narrowing(Filters(include_archived=True))},
        {"narrowing": narrowing(Filters(date_range=DateRange(start="2025-01-01")))},
    ]
    found = {cache.key(made(access, **one), "m", (1,)) for one in wanted for access in (ANN, BOB)}
    assert len(found) == 2 * len(wanted)
    assert cache.key(made(ANN)._replace(agreement=0.5), "m", (1,)) not in found
    assert len({cache.key(made(ANN), *one) for one in (("m", (1,)), ("n", (1,)), ("m", (2,)))}) == 3
    shown = made(ANN, limit=7, threshold=0.5, rerank=True, group=False, neighbours=1)
    assert cache.key(made(ANN), "m", (1,)) == cache.key(shown, "m", (1,))


def made_directory() -> Directory:
    """Return a directory whose servers are not asked."""
    return Directory(
        Settings(), Database("host=127.0.0.1 port=9", prepare_threshold=5), WithheldReads(async_client(Settings()))
    )


def test_the_cache_is_bounded_in_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CACHE_BYTES", 600)
    directory = made_directory()
    directory.versions.read(1, {"files": 1})
    now = 0.0
    kept = cache.CandidateCache(directory, 60, lambda: now)
    looked_up = [kept.lookup(search_query(text, ANN, Settings(_env_file=None), limit=5), "m") for text in "abc"]  # type: ignore[call-arg]
    found = cache.Candidates([cache.Candidate("x" * 100, 0.5)] * 2, False, 50)

    def present() -> list[bool]:
        texts = (search_query(text, ANN, Settings(_env_file=None), limit=5) for text in "abc")  # type: ignore[call-arg]
        return [kept.lookup(text, "m").candidates is not None for text in texts]

    for one in looked_up:
        kept.store(one, found)
    assert present() == [False, True, True]
    kept.store(looked_up[0], msgspec.structs.replace(found, ranked=found.ranked * 3))
    assert present() == [False, True, True], "larger than the cache"
    directory.versions.read(1, {"files": 0})
    assert present() == [False, True, True], "an older answer says nothing"
    now = 61.0
    assert present() == [False] * 3


def test_a_change_of_one_source_leaves_what_is_cached_of_others() -> None:
    directory = made_directory()
    directory.versions.read(1, {"files": 1})
    kept = cache.CandidateCache(directory, 60)
    narrowings = (Narrowing(), Narrowing(source_types=("files",)), Narrowing(source_types=("files", "slack")))
    query = search_query("tea", ANN, Settings(_env_file=None), limit=5)  # type: ignore[call-arg]
    queries = [query._replace(narrowing=one) for one in narrowings]
    found = cache.Candidates([cache.Candidate("x", 0.5)], False, 50)

    def present() -> list[bool]:
        lookups = [kept.lookup(query, "m") for query in queries]
        for lookup in lookups:
            kept.store(lookup, found)
        return [lookup.candidates is not None for lookup in lookups]

    assert present() == [False] * 3
    assert present() == [True] * 3
    directory.versions.read(1, {"files": 1, "drive": 1})  # a source that is new
    assert present() == [False, True, True]
    directory.versions.read(1, {"files": 1, "slack": 1})
    assert present() == [False, True, False]
    directory.versions.read(1, {"files": 2})
    assert present() == [False] * 3
    directory.versions.read(2, {})  # the collection was replaced
    assert present() == [False] * 3


def test_queries_are_normalised_before_they_are_counted() -> None:
    assert normalise("  a \n\t b\u00a0 ") == "a b"
    marked = "\u200f-\u05d8\u05d9 type:pdf\u200e in:\u2066#general\u2069 Ver\u00adtrag a\x00b"
    assert normalise(marked) == "-\u05d8\u05d9 type:pdf in:#general Vertrag a b"
    persian = "\u0645\u06cc\u200c\u0631\u0648\u0645"
    assert normalise(persian) == persian, "it is spelled with joiners"
    assert len(normalise("x" * 1000 + " " * 500)) == 1000
    with pytest.raises(InvalidRequestError, match="1001 characters"):
        normalise("x" * 1001)


def test_an_end_date_includes_its_day() -> None:
    made = narrowing(Filters(date_range=DateRange("2025-01-01", "2025-12-31")))
    assert made.since == datetime(2025, 1, 1, tzinfo=UTC)
    assert made.before == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail ann.b@acme.co.uk now", "mail [email] now"),
        ("call +49 170 1234567 today", "call [phone] today"),
        ("call (030) 123-4567-89", "call [phone]"),
        ("call 030 / 123 45 67 or 030/1234567", "call [phone] or [phone]"),
        ("2025-11-10T15:30:00Z took 12345678901 bytes", "2025-11-10T15:30:00Z took 12345678901 bytes"),
        ("job 550e8400-e29b-41d4-a716-446655440000", "job 550e8400-e29b-41d4-a716-446655440000"),
        ("call 0170 1234567. 5 tries", "call [phone]. 5 tries"),
        ("call 555-123-4567 or (+49.30.1234567)", "call [phone] or ([phone])"),
        ("call 030.123.4567 or 555.123.4567.", "call [phone] or [phone]."),
        ("120.0.6099.109 of 01.02.2026: 1.234.567,89 EUR", "120.0.6099.109 of 01.02.2026: 1.234.567,89 EUR"),
        (
            "at 100.101.102.103 or 1.100.101.1024 since 1.234.5678",
            "at 100.101.102.103 or 1.100.101.1024 since 1.234.5678",
        ),
        ('server at "192.168.100.101", port 5432', 'server at "192.168.100.101", port 5432'),
        ("took 1234567890.123 s (1234567890 bytes)", "took 1234567890.123 s (1234567890 bytes)"),
        ("12 345 678 901 rows", "12 345 678 901 rows"),
        ("no file /data/2024/11/30123/4", "no file /data/2024/11/30123/4"),
    ],
)
def test_logs_mask_emails_and_phone_numbers(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_masking_reaches_nested_values_and_spares_ids() -> None:
    event = mask_event(None, "", {"job_id": "a@b.co", "detail": {"who": ["a@b.co"]}, "count": 3})
    assert event == {"job_id": "a@b.co", "detail": {"who": ["[email]"]}, "count": 3}


def test_messages_of_other_loggers_and_errors_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("info", "test")
    logging.getLogger("uvicorn").warning("rejected %s, call %s", "ann@acme.com", "+49 170 1234567")
    logger("test").warning("not_sent", error=ValueError("no mailbox ann@acme.com"), at=[Path("/ann@acme.com")], tries=3)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["action"] == "rejected [email], call [phone]"
    assert (second["error"], second["at"], second["tries"]) == ("no mailbox [email]", ["/[email]"], 3)


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("../../etc/notes.md", "notes.md"),
        ("C:\\temp\\a b.pdf", "a b.pdf"),
        ("x\x00\ny.txt", "x y.txt"),
        ("a" * 400 + ".md", "a" * 197 + ".md"),
    ],
)
def test_folders_and_control_characters_are_removed_from_file_names(name: str, clean: str) -> None:
    assert clean_name(name) == clean


@pytest.mark.parametrize("name", ["", "../", "..", "\x00"])
def test_a_file_needs_a_name(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="file"):
        clean_name(name)


def test_metadata_as_json_and_as_flat_fields() -> None:
    as_json = parse_metadata(
        {"metadata": ['{"title": " A\\n B ", "share": ["Bob@acme.com"], "tags": {"k": 1}}']}, UploadMetadata
    )
    flat = parse_metadata({"title": ["A B"], "share": ["bob@acme.com"], "tags": ['{"k": 1}']}, UploadMetadata)
    assert (
        (as_json.title, as_json.share, as_json.tags)
        == (flat.title, flat.share, flat.tags)
        == ("A B", ["bob@acme.com"], {"k": 1})
    )
    for name, value in (("share", "bob@acme.com"), ("title", "A"), ("tags", "{}"), ("description", "D")):
        with pytest.raises(InvalidRequestError, match=rf"^{name}: is ignored beside the part metadata"):
            parse_metadata({"metadata": ["{}"], name: [value]}, UploadMetadata)
    for wrong in ({"metadata": ["{"]}, {"metadata": ['{"owner": "x@y.z"}']}, {"share": ["nobody"]}):
        with pytest.raises(InvalidRequestError):
            parse_metadata(wrong, UploadMetadata)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tags": ["[1]"]}, "tags: expected `object`, got `array`"),
        ({"tags": ["topic"]}, "tags: is not valid JSON"),
        ({"tags": ['{"k": {"l": 1}}']}, "tags: "),
        ({"title": ["t" * 501]}, "title: is too long"),
        ({"metadata": ['{"tags": [1]}']}, "metadata.tags: expected `object`, got `array`"),
        ({"metadata": ["{"]}, "metadata: is not valid JSON"),
    ],
)
def test_a_fault_of_the_metadata_names_the_part_that_was_sent(fields: dict[str, list[str]], says: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_metadata(fields, UploadMetadata)
    assert str(refused.value).startswith(says)


BODY = (
    b'--B\r\nContent-Disposition: form-data; name="title"\r\n\r\nHello\r\n'
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"some\r\n--bytes\r\n--B--\r\n"
)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_multipart_in_pieces_of_any_size(size: int) -> None:
    reader = Multipart("multipart/form-data; boundary=B")
    events = [event for at in range(0, len(BODY), size) for event in reader.feed(BODY[at : at + size])]
    reader.close()
    assert [(event.kind, event.name, event.data) for event in events if event.kind == "field"] == [
        ("field", "title", b"Hello")
    ]
    assert [event.name for event in events if event.kind == "file"] == ["a.txt"]
    assert b"".join(event.data for event in events if event.kind == "data") == b"some\r\n--bytes"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("filename=\"=?utf-8?B?R3LDtsOfZS5wZGY=?=\"; filename*=utf-8''Gr%C3%B6%C3%9Fe.pdf", "Größe.pdf"),
        ("filename*=UTF-8'de'Gr%C3%B6%C3%9Fe.pdf", "Größe.pdf"),
        ("filename*=iso-8859-1''Gr%F6%DFe.pdf; filename=x.pdf", "Größe.pdf"),
        ("filename=x.pdf; filename*=utf-8''%FF.pdf", "x.pdf"),
        ("filename=x.pdf; filename*=klingon''y.pdf", "x.pdf"),
        ("filename=x.pdf; filename*=y.pdf", "x.pdf"),
        ("filename=\"a.pdf; filename*=utf-8''b.pdf\"", "a.pdf; filename*=utf-8''b.pdf"),
    ],
)
def test_the_encoded_name_of_a_file_is_preferred(sent: str, name: str) -> None:
    """As .NET and PowerShell send it, beside a name that nothing else decodes."""
    part = f"--B\r\nContent-Disposition: form-data; name=file; {sent}\r\n\r\nx\r\n--B--\r\n"
    events = Multipart("multipart/form-data; boundary=B").feed(part.encode())
    assert [(event.kind, event.name) for event in events][:1] == [("file", name)]


def test_a_part_whose_header_is_no_utf_8_is_refused_without_quoting_it() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"^The multipart body is malformed: Segment header failed to decode\.$"
    ):
        list(
            Multipart("multipart/form-data; boundary=B").feed(
                b'--B\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n--B--'
            )
        )


def test_truncated_and_invalid_multipart_is_refused() -> None:
    reader = Multipart("multipart/form-data; boundary=B")
    list(reader.feed(BODY[:-20]))
    with pytest.raises(InvalidRequestError, match="ends before"):
        reader.close()
    with pytest.raises(InvalidRequestError, match="multipart/form-data"):
        Multipart("application/json")


def test_what_was_left_out_is_left_out_of_every_query() -> None:
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    gone = LeftOut(archived=True, partitions=(("slack", "C1"), ("slack", "C2"), ("files", "root")), chunk_ids=("a",))
    query = search_query("x", ANN, settings, limit=5, left_out=gone)
    batch = queries(query, [0.1], SparseVector([1], [1.0]), with_payload=False)
    searches = msgspec.json.decode(batch_body(batch))["searches"]
    assert len(searches) == 4
    for one in searches:
        archived, slack, files, ids = one["filter"]["must_not"]
        assert archived["match"] == {"value": "archived"}
        assert [part["match"]["any"] for part in slack["must"]] == [["slack"], ["C1", "C2"]]
        assert [part["match"]["any"] for part in files["must"]] == [["files"], ["root"]]
        assert ids == {"has_id": ["a"]}


def test_the_depth_of_a_search_follows_from_how_much_is_wanted() -> None:
    def depth(limit: int, **more: Any) -> int:
        return first_depth(search_query("x", ANN, Settings(_env_file=None), limit=limit, **more), 4.0)  # type: ignore[call-arg]

    assert [depth(5), depth(10), depth(50), depth(50, group=False), depth(50, depth=500)] == [50, 50, 300, 75, 500]
    assert first_depth(search_query("x", ANN, Settings(_env_file=None), limit=50), 400.0) == 750  # type: ignore[call-arg]


def test_the_monitor_knows_the_passages_of_a_document() -> None:
    monitor = StatusMonitor(Database("host=127.0.0.1 port=9", prepare_threshold=5), None, None)  # type: ignore[arg-type]
    assert monitor.passages_per_document == 1.0
    monitor.points = 30
    monitor.totals = [
        Figure("documents", "files", "live", 8.0),
        Figure("documents", "slack", "live", 2.0),
        Figure("documents", "files", "failed", 90.0),
    ]
    assert monitor.passages_per_document == 3.0


def test_a_token_from_a_machine_whose_clock_is_ahead_says_so() -> None:
    made = datetime.now(UTC) + timedelta(minutes=10)
    claims = {
        "iss": tokens.ISSUER,
        "aud": tokens.AUDIENCE,
        "sub": "ann@acme.com",
        "iat": made,
        "exp": made + timedelta(hours=1),
    }
    with pytest.raises(errors.UnauthorizedError, match="clock"):
        tokens.verify(tokens.sign("k" * 32, claims), "k" * 32)
