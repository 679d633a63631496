"""Documents are found by name in both stores and every collection, also after a rename or an upgrade, without embedding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets.cutover import promote
from assets.reindex import open_reindex
from resources.core import bm25
from resources.core.naming import keyword_text
from resources.embedding import choose
from resources.stores import qdrant
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow, web
from tests.fixtures.tiny_model import make_tiny_model

HAY = "Every stable gets fresh hay in the morning.\n"
GERMAN = "Die Verträge mit den Lieferanten werden jedes Jahr geprüft, und die Preise werden neu verhandelt. " * 60
LONG = "\n\n".join(f"## Part {n}\n\nParagraph {n} tells of hay, straw and water in some detail." for n in range(90))


def vectors(installation: Installation, collection: str = qdrant.ALIAS) -> dict[str, Any]:
    """Return the keyword vector of each point."""
    client = qdrant.client(installation.settings)
    found, _ = client.scroll(collection, limit=1000, with_payload=False, with_vectors=[qdrant.KEYWORD])
    client.close()
    return {str(record.id): record.vector[qdrant.KEYWORD] for record in found}  # type: ignore[index, call-overload]


def check(installation: Installation, words: str, *, collection: str | None = None) -> None:
    """Fail unless keyword search in both stores includes these words in the first passage, and in no other passage."""
    where = "active" if collection is None else "name = %s"
    values = () if collection is None else (collection,)
    (made,) = installation.rows(f"SELECT name, bm25_avg_len FROM index_collections WHERE {where}", *values)  # noqa: S608
    rows = installation.rows(
        "SELECT chunk_id::text, chunk_index, chunk_text, name_words, language FROM chunks WHERE collection = %s",
        made["name"],
    )
    held = vectors(installation, made["name"])
    assert len(held) == len(rows) > 0
    for row in rows:
        assert row["name_words"] == ("" if row["chunk_index"] else words)
        texts = [keyword_text(row["name_words"], row["chunk_text"])]
        (wanted,) = bm25.encode_documents(texts, made["bm25_avg_len"], [row["language"]])
        assert held[row["chunk_id"]].indices == wanted.indices
        assert held[row["chunk_id"]].values == pytest.approx(wanted.values)


def found(installation: Installation, query: str) -> int:
    """Return how many passages Postgres finds."""
    (row,) = installation.rows(
        "SELECT count(*) AS passages FROM active_chunks WHERE tsv @@ plainto_tsquery('english', %s)", query
    )
    return row["passages"]


def test_a_rename_renews_words_and_vectors(installation: Installation) -> None:
    installation.write("budget_2026-final.txt", LONG)
    installation.sync()
    check(installation, "budget 2026 final")
    assert len(vectors(installation)) > 3
    assert found(installation, "budget 2026") == 1
    installation.write("budget_2026-final.txt", LONG, title="forecast-2027.txt")
    run = installation.sync()
    assert (run.counts.embedded, run.counts.synced, installation.last["indexed"]["keywords_refreshed"]) == (0, 1, 1)
    check(installation, "forecast 2027 budget 2026 final")
    assert found(installation, "forecast") == 1
    installation.write("budget_2026-final.txt", LONG, title="plan.txt")
    installation.sync()
    assert (found(installation, "forecast"), found(installation, "plan")) == (0, 1)
    assert installation.agrees()
    assert installation.sync().counts.synced == installation.last["indexed"]["keywords_refreshed"] == 0


def forget_passes(installation: Installation) -> None:
    """Forget that this version has compared all documents with the index, as another version would have left it."""
    installation.rows("DELETE FROM index_passes RETURNING 1")


@pytest.mark.parametrize("text", [LONG, GERMAN], ids=["English", "German"])
@pytest.mark.parametrize("earlier", [None, "w0\notter_dens.txt\notter_dens.txt\notter_dens.txt"])
def test_what_an_earlier_version_indexed_is_renewed_by_the_next_sync(
    installation: Installation, earlier: str | None, text: str
) -> None:
    installation.write("otter_dens.txt", text)
    installation.sync()
    assert installation.rows("SELECT DISTINCT language FROM chunks") == [{"language": "de" if text == GERMAN else "en"}]
    client = qdrant.client(installation.settings)
    others = dict.fromkeys(vectors(installation), bm25.encode_documents(["plain"], 10)[0])
    qdrant.set_keywords(client, qdrant.ALIAS, others)
    client.close()
    sketches = installation.rows("SELECT chunk_id, sketch FROM chunks ORDER BY chunk_id")
    assert all(row["sketch"] for row in sketches)
    installation.rows("UPDATE chunks SET name_words = '', sketch = NULL RETURNING 1")
    installation.rows("UPDATE index_entries SET keywords = %s RETURNING 1", earlier)
    forget_passes(installation)
    run = installation.sync()
    assert (run.counts.embedded, installation.last["indexed"]["keywords_refreshed"]) == (0, 1)
    check(installation, "otter dens")
    assert installation.rows("SELECT chunk_id, sketch FROM chunks ORDER BY chunk_id") == sketches


VISIT = "José García visited the stable with number {}. He asked whether PKZ-0821 may be bought, and left before noon."
ADA = "ada@acme.example"


def test_searches_go_on_while_the_keywords_of_the_version_before_are_renewed(
    installation: Installation, bundled_model: Any, show: Callable[[str], None]
) -> None:
    """One sync renews the keyword vectors of all documents, embeds nothing, and leaves no moment without results."""
    for number in range(60):
        installation.write(f"visit {number}.txt", VISIT.format(number))
    installation.sync()
    before = bm25.encode_documents([VISIT.replace("José García", "").replace("PKZ-0821", "")], 10)[0]
    client = qdrant.client(installation.settings)
    qdrant.set_keywords(client, qdrant.ALIAS, dict.fromkeys(vectors(installation), before))
    client.close()
    assert bm25.VERSION != "w6"
    installation.rows("UPDATE index_entries SET keywords = replace(keywords, %s, 'w6') RETURNING 1", bm25.VERSION)
    forget_passes(installation)
    follow(installation)
    with web(installation, bundled_model) as running:

        def found(query: str) -> int:
            answer = running.search(query, ADA, mode="keyword", top_k=50)
            assert not answer["warnings"]
            return len(answer["results"])

        queries = ("Jose Garcia", "PKZ0821")
        assert [found(query) for query in queries] == [0, 0]
        counts, over = list[int](), threading.Event()

        def search() -> None:
            while not over.is_set():
                counts.append(found("stable noon"))

        thread = threading.Thread(target=search)
        thread.start()
        try:
            run = installation.sync()
        finally:
            over.set()
            thread.join()
        refreshed = installation.last["indexed"]["keywords_refreshed"]
        assert (run.error, run.counts.embedded, refreshed) == (None, 0, 60)
        assert len(counts) > 1
        assert set(counts) == {50}
        assert [found(query) for query in queries] == [50, 50]
        show(f"{refreshed} documents renewed, 0 embedded; {len(counts)} searches meanwhile, all answered")
    installation.sync()
    assert installation.last["indexed"]["keywords_refreshed"] == 0


def test_a_collection_that_an_empty_source_created_is_measured_by_the_first_documents(
    installation: Installation,
) -> None:
    installation.sync()
    assert installation.rows("SELECT bm25_avg_len FROM index_collections") == [{"bm25_avg_len": 1.0}]
    installation.write("otter_dens.txt", LONG)
    installation.sync()
    (row,) = installation.rows("SELECT bm25_avg_len FROM index_collections")
    assert row["bm25_avg_len"] > 10
    check(installation, "otter dens")


def test_a_filled_collection_that_was_never_measured_is_renewed_by_the_next_sync(installation: Installation) -> None:
    installation.write("otter_dens.txt", LONG)
    installation.sync()
    measured = installation.rows("SELECT bm25_avg_len FROM index_collections")
    right = vectors(installation)
    client = qdrant.client(installation.settings)
    qdrant.set_keywords(client, qdrant.ALIAS, dict.fromkeys(right, bm25.encode_documents(["plain"], 1.0)[0]))
    client.close()
    installation.rows("UPDATE index_collections SET bm25_avg_len = 1 RETURNING 1")
    installation.rows(
        r"UPDATE index_entries SET keywords = regexp_replace(keywords, '[0-9.]+\n', E'1.00\n') RETURNING 1"
    )
    forget_passes(installation)
    run = installation.sync()
    assert (run.counts.embedded, installation.last["indexed"]["keywords_refreshed"]) == (0, 1)
    assert installation.rows("SELECT bm25_avg_len FROM index_collections") == measured
    assert vectors(installation) == right
    installation.sync()
    assert installation.last["indexed"]["keywords_refreshed"] == 0


def test_a_point_that_is_missing_keeps_no_rename_from_going_on(installation: Installation) -> None:
    installation.write("one.txt", HAY)
    installation.write("two.txt", f"{HAY} Again.")
    installation.sync()
    rows = installation.rows("SELECT chunk_id::text FROM chunks WHERE name_words = 'one'")
    client = qdrant.client(installation.settings)
    qdrant.delete_points(client, qdrant.ALIAS, [row["chunk_id"] for row in rows])
    client.close()
    installation.write("one.txt", HAY, title="first")
    installation.write("two.txt", f"{HAY} Again.", title="second")
    assert installation.sync().error is None
    words = installation.rows("SELECT name_words FROM chunks ORDER BY 1")
    assert [row["name_words"] for row in words] == ["first one", "second two"]


def test_the_secondary_collection_is_renamed_as_well_and_both_after_the_switch(
    installation: Installation, tmp_path: Path
) -> None:
    installation.write("heron.txt", LONG)
    installation.sync()
    with open_reindex(installation.settings) as work:
        made = work.begin(work.wanted(choose(work.settings, str(make_tiny_model(tmp_path / "tiny")), None)))
        work.fill(made, lambda _done, _of: None, 1)
        name = made.collection.name
        check(installation, "heron", collection=name)
        installation.write("heron.txt", LONG, title="stork")
        assert installation.sync().counts.embedded == 0
        check(installation, "stork heron")
        check(installation, "stork heron", collection=name)
        old = work.active_name()
        promote(work, made)
    installation.write("heron.txt", LONG, title="crane")
    assert installation.sync().counts.embedded == 0
    check(installation, "crane heron", collection=name)
    check(installation, "crane heron", collection=old)
