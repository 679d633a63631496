"""Checks of the stores for `concordance doctor`: Postgres, the vector server and the lake."""

from __future__ import annotations

import time
from collections.abc import Iterator

from resources.core.checks import Check
from resources.core.errors import ConcordanceError
from resources.settings import Settings

QDRANT_SECONDS = 20
CLOCK_SECONDS = 30
"""Clocks of this machine and of Postgres that differ more are a fault: a token made elsewhere may be 5 s too young, an identity
provider's 60 s."""
SHOWN = 20
"""Number of documents to list; the rest are counted."""


def postgres(settings: Settings, *, running: bool) -> Iterator[Check]:
    """Ask Postgres for its version, its clock and the tables of this version."""
    if settings.embedded_postgres and not running:
        from resources.servers.postgres import EmbeddedPostgres

        EmbeddedPostgres(settings).check_reachable()
        yield Check("postgres", True, "the embedded server starts with `concordance up`")
        return
    from resources.stores.migrate import pending
    from resources.stores.postgres import session

    with session(settings.postgres_dsn) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version') AS version, extract(EPOCH FROM clock_timestamp())::float8 AS now"
        ).fetchone()
        off = round(time.time() - row["now"]) if row else 0
        known = connection.execute("SELECT to_regclass('schema_migrations') AS ledger").fetchone()
    yield Check("postgres", True, f"version {row['version'] if row else 'unknown'} responds")
    if abs(off) > CLOCK_SECONDS:
        what = f"this machine's clock is {abs(off)} s {'ahead of' if off > 0 else 'behind'} that of Postgres"
        yield Check(
            "postgres", False, what, "Let both follow NTP: see timedatectl. Until then tokens and sign-ins are refused."
        )
    if known is None or known["ledger"] is None:
        yield Check("postgres", False, "the database has no tables", "Run `concordance up` once to create them.")
    elif missing := pending(settings.postgres_dsn):
        what = f"the database is of an earlier version: it lacks {len(missing)} migrations"
        yield Check("postgres", False, what, "Run: concordance restart")


def qdrant(settings: Settings, *, running: bool) -> Iterator[Check]:
    """Ask the vector server for its collections, once."""
    if settings.embedded_qdrant and not running:
        yield Check("qdrant", True, "the embedded vector server starts with `concordance up`")
        return
    from resources.stores.qdrant import client, qdrant_errors

    address = settings.qdrant_address
    try:
        with qdrant_errors("list the collections"):
            found = client(settings, QDRANT_SECONDS).get_collections().collections
    except ConcordanceError as error:
        remedy = (
            f"See {settings.home / 'logs' / 'qdrant.log'}, or run: concordance restart"
            if settings.embedded_qdrant
            else "Check CONCORDANCE_QDRANT_URL, CONCORDANCE_QDRANT_API_KEY and the server."
        )
        yield Check("qdrant", False, f"{address}: {error}", remedy)
    else:
        yield Check("qdrant", True, f"{address} responds, {len(found)} collections")


def lake(settings: Settings, *, registry: bool) -> Iterator[Check]:
    """Ask the lake, and open what it holds if there is a `registry` to say what that must be."""
    from resources.stores.blobs import Blobs

    Blobs(settings.lake_address).exists("0" * 64)
    yield Check("lake", True, f"{settings.lake_address} {'(in HOME)' if settings.lake_url is None else 'responds'}")
    if registry:
        yield from contents(settings)


def contents(settings: Settings) -> Iterator[Check]:
    """Open every table and check that the bytes of every live document exist."""
    from assets.upkeep.integrity import expected, lost_contents
    from resources.stores.blobs import Blobs
    from resources.stores.damage import damaged_tables, remedy
    from resources.stores.lake import Lake

    wanted = expected(settings)
    lost = lost_contents(wanted, Blobs(settings.lake_address))
    damaged = damaged_tables(Lake(settings.lake_address), wanted.tables)
    for name, reason in sorted(damaged.items()):
        yield Check("lake", False, f"table {name}: {reason}", remedy(name))
    for source_id, reason in lost[:SHOWN]:
        yield Check("lake", False, f"{source_id}: {reason}", "Run: concordance reconcile --deep --apply")
    if len(lost) > SHOWN:
        yield Check("lake", False, f"{len(lost) - SHOWN} more documents cannot be rebuilt")
    if not damaged and not lost:
        yield Check("lake", True, "every table can be opened and every live document can be rebuilt")
