"""Explain errors of damaged stores: name the table or disk that is damaged, and the remedy.

Tables of the lake are read lazily and in many places, so an error names neither the table nor the cause. Therefore, only after a
failure, the tables are opened and read again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psycopg

from resources.core.errors import AbortSyncError, ConcordanceError, NotRunningError, ServiceUnavailableError
from resources.stores import disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resources.settings import Settings
    from resources.stores.lake import Lake

SHOWN = 3
"""Number of documents that an error names; the rest is counted."""
MADE_AGAIN = "its rows are rebuilt from the stored bytes"
RESTORE = 'restore the lake from a backup (docs/operations.md, "Back up and restore")'


def explained(error: BaseException, settings: Settings) -> ConcordanceError | None:
    """Return an error that says which store is damaged and what to do; None if no store explains this error."""
    if (found := of_a_disk(error, settings)) is not None:
        return found
    if isinstance(error, ConcordanceError):
        return error
    if isinstance(error, PermissionError) and str(error.filename).startswith(f"{settings.home}/lake/"):
        return AbortSyncError(
            f"{error.filename} is closed to this process: another account, such as root, wrote it or a folder above. Give HOME to its"
            f" owner: chown -R --reference={settings.home} {settings.home}"
        )
    if (older := of_the_schema(error)) is not None:
        return older
    if (away := of_an_object_store(error)) is not None:
        return away
    if not _of_the_lake(error):
        return None
    from resources.stores.lake import Lake

    faults = damaged_tables(Lake(settings.lake_address), deep=True)
    if not faults:
        return None
    return AbortSyncError(" ".join(sentence(name, reason) for name, reason in sorted(faults.items())))


def of_the_schema(error: BaseException) -> AbortSyncError | None:
    """Return what to do about a table or column that the database does not have; None for any other error."""
    if not isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return None
    return AbortSyncError(
        f"The database lacks something that this version needs: {error.diag.message_primary}. `concordance restart` creates what a"
        " new version adds. If that does not help, restore the database from a backup"
        ' (docs/operations.md, "Back up and restore").'
    )


def of_a_disk(error: BaseException, settings: Settings) -> ServiceUnavailableError | None:
    """Return the full or read-only disk that caused an error; None if the disks are fine or cannot be the cause."""
    polars = sys.modules.get("polars")
    kinds = (OSError, psycopg.Error, NotRunningError, ServiceUnavailableError)
    if isinstance(error, kinds) or (polars is not None and isinstance(error, polars.exceptions.PolarsError)):
        return disk.cause(settings)
    return None


def of_an_object_store(error: BaseException) -> ServiceUnavailableError | None:
    """Return the failure of the lake's object store that kept a table from being read; None for any other error."""
    if not _of_the_lake(error):
        return None
    from resources.stores.blobs import STORE
    from resources.stores.delta import is_unanswered, one_line

    if not is_unanswered(error):
        return None
    return ServiceUnavailableError(f"{STORE} is not responding as expected: {one_line(error)}")


def _of_the_lake(error: BaseException) -> bool:
    """Return True for an error that reading a table can raise."""
    if isinstance(error, OSError):
        return True
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PolarsError)


def damaged_tables(lake: Lake, expected: Iterable[str] = (), *, deep: bool = False) -> dict[str, str]:
    """Return the fault of each damaged table: one of `expected` that is missing, or an existing one that cannot be read.

    Each table and file is opened. With `deep`, every page of every file is read, too. Raises `ServiceUnavailableError` if an object store
    stops answering.
    """
    names = lake.names()
    faults = {name: "the table is missing" for name in expected if name not in names}
    for name in names:
        fault = _fault(lake, name, deep=deep)
        while fault is not None and (again := _fault(lake, name, deep=deep)) != fault:
            fault = again  # an erasure was removing files meanwhile: the next reading finds others
        if fault is not None:
            faults[name] = fault
    return faults


def _fault(lake: Lake, name: str, *, deep: bool) -> str | None:
    """Return the fault of a table, None if it can be read."""
    import polars as pl

    from resources.stores.delta import is_unanswered, one_line, unavailable

    try:
        lacking = lake.lacking(name)
        if lacking is None:
            return "its log is missing"
        if lacking:
            return f"it lacks the columns {', '.join(lacking)}"
        # counting rows only reads the ends of the files
        wanted = pl.all().is_null().sum() if deep else pl.len()
        lake.scan(name).select(wanted).collect(engine="streaming")
    except (ConcordanceError, pl.exceptions.PolarsError, OSError) as error:
        if is_unanswered(error):
            if isinstance(error, ConcordanceError):
                raise
            raise unavailable(name, error) from error
        said = one_line(error)
        return "".join(letter if letter.isprintable() else "?" for letter in said)  # may quote a file's bytes
    return None


def rows_lost(lake: Lake, name: str, source: str, whose: Sequence[str], *, included: bool = True) -> AbortSyncError:
    """Return the error of a sync that needs rows which are missing from a table, though an earlier stage wrote them.

    If that stage was not `included` in the run, it may not have written them yet. `whose` are ids of documents, never names: the error is
    shown to people who may not read them.
    """
    shown = ", ".join(whose[:SHOWN]) + (f" and {len(whose) - SHOWN} more" if len(whose) > SHOWN else "")
    missing = lake.open(name) is None
    if not included:
        return AbortSyncError(
            f"The table {name} of the lake {'is missing' if missing else 'lacks rows'}: {shown} cannot be indexed, and this run does not"
            f" include the stage that makes them. Run all five assets, or `concordance sync {source} --wait`."
        )
    return AbortSyncError(
        f"The table {name} of the lake {'is missing' if missing else 'has lost rows'}: {shown} cannot be indexed. Run"
        f" `concordance sync {source} --full --wait`: {MADE_AGAIN}. `concordance doctor` shows what else is damaged."
    )


def sentence(name: str, reason: str) -> str:
    """Return a table's fault and what to do about it."""
    return f"The table {name} of the lake is damaged: {reason.rstrip('.')}. {remedy(name)}"


def remedy(name: str) -> str:
    """Return what to do about a table that is missing or damaged."""
    if name.startswith("raw_"):
        source = name.removeprefix("raw_")
        return (
            f"To repair it, {RESTORE}, or move the folder of the table away and run"
            f" `concordance reconcile {source} --apply`, which reads the source again."
        )
    return (
        f"To repair it, {RESTORE}, or move the folder of the table away and run `concordance sync SOURCE --full --wait`"
        f" for each source: {MADE_AGAIN}."
    )
