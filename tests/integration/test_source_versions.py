"""A change of one source empties the caches of its own searches, and neither those of others nor their syncs wait for it."""

from __future__ import annotations

import psycopg
import pytest

from resources.core.domain import SourceName
from sql.sync import Documents
from tests.fixtures.serving import Running, Site

ANN, EVE = "ann@acme.com", "eve@acme.com"
TEA = "Tea is served at four in the kitchen."


def raise_version(site: Site, source: str) -> None:
    with psycopg.connect(site.settings.postgres_dsn, autocommit=True) as connection:
        Documents(connection, source).raise_version()


def test_a_search_of_one_source_stays_cached_while_another_changes(site: Site, running: Running) -> None:
    site.add("Tea", [TEA], [ANN])

    def cached(**filters: list[str]) -> bool:
        return running.search("When is tea served?", ANN, filters=filters)["cached"]

    everything: dict[str, list[str]] = {}
    files, both = {"source_types": ["files"]}, {"source_types": ["files", "slack"]}
    searches = (everything, files, both)
    assert [cached(**one) for one in searches] == [False] * 3
    assert [cached(**one) for one in searches] == [True] * 3
    raise_version(site, "drive")
    assert [cached(**one) for one in searches] == [False, True, True]
    raise_version(site, "slack")
    assert [cached(**one) for one in searches] == [False, True, False]
    raise_version(site, "files")
    assert [cached(**one) for one in searches] == [False] * 3


def test_what_is_cached_is_withheld_as_soon_as_permissions_narrow(site: Site, running: Running) -> None:
    doc_id = site.add("Tea", [TEA], [ANN, EVE])
    for _ in range(2):
        assert running.titles("When is tea served?", EVE, filters={"source_types": ["files"]}) == ["Tea"]
    site.sql("UPDATE documents SET permissions = %s WHERE doc_id = %s", [ANN], doc_id)  # before any version is raised
    assert running.titles("When is tea served?", EVE, filters={"source_types": ["files"]}) == []
    assert running.titles("When is tea served?", ANN, filters={"source_types": ["files"]}) == ["Tea"]


def test_batches_of_two_sources_do_not_wait_for_each_other(site: Site) -> None:
    dsn = site.settings.postgres_dsn
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as two, psycopg.connect(dsn) as three:
        for connection in (two, three):
            connection.execute("SET lock_timeout = '200ms'")
        Documents(one, SourceName.FILES.value).raise_version()
        Documents(two, SourceName.SLACK.value).raise_version()
        two.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable):  # one source has one row
            Documents(three, SourceName.FILES.value).raise_version()
        one.commit()
    assert dict(site.sql("SELECT source, version FROM source_versions")) == {"files": 1, "slack": 1}
