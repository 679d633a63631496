"""The permission audit: compare the permissions that a source reports now with the registry and the points in Qdrant.

Syncs follow each change. The audit finds changes that were never reported, and permissions altered in the stores. An excess grant is
revoked at once, first in the registry, which every hit is checked against, and raises an alert. A missing grant is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from assets.indexed import write_payloads
from assets.intake.listing_record import ListingRecord
from assets.stages.grant import effective_permissions
from resources.alerts import alert
from resources.core.domain import Batch, Item, SourceName
from resources.core.permissions import granted
from resources.core.ports import Source
from resources.settings import Settings
from resources.sources import capabilities, label, open_source
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.withholding import withhold_documents
from resources.syncs.jobs import hold
from sql.upkeep import PermissionAudit
from sql.upkeep_rows import StoredGrants

PAGE_DOCUMENTS = 500
EXAMPLES = 20


class Grants(msgspec.Struct):
    """Numbers of grants; one grant is one principal on one document."""

    postgres: int = 0
    qdrant: int = 0


class AuditReport(msgspec.Struct):
    """Findings and actions of the audit of one source."""

    source: SourceName
    checked: int = 0
    """Live documents whose permissions were compared."""
    excess: Grants = msgspec.field(default_factory=Grants)
    missing: Grants = msgspec.field(default_factory=Grants)
    repaired: int = 0
    """Documents whose permissions were corrected."""
    unlisted: dict[str, str] = {}
    """Partitions whose permissions could not be read, with the reason."""
    examples: list[str] = []


class _Rights(msgspec.Struct, frozen=True):
    """The stored permissions of a document and those that the source grants."""

    doc_id: str
    source_id: str
    partition: str
    held: frozenset[str]
    given: frozenset[str]

    @property
    def excess(self) -> frozenset[str]:
        return self.held - self.given

    @property
    def missing(self) -> frozenset[str]:
        return self.given - self.held

    def row(self) -> dict[str, Any]:
        """Return the row for the SQL statements."""
        return {"doc_id": self.doc_id, "permissions": sorted(self.given)}


def audit(settings: Settings, source: SourceName, *, port: Source | None = None) -> AuditReport:
    """Compare and correct the permissions of every live document in a source's listing. Nothing is fetched.

    Syncs of the source wait meanwhile. Raises `BusyError` or `ServiceUnavailableError`.
    """
    port = port if port is not None else open_source(settings, source)
    with hold(settings, source) as stores:
        listed = ListingRecord(port)
        report = AuditReport(source=source, unlisted=listed.unlisted)
        names = qdrant.collections(stores.qdrant)
        known = stores.partitions.partition_names()
        for partition in listed.begin(known):
            for batch in listed.listing(partition):
                for page in _rights(stores, batch):
                    _settle(stores, names, page, report)
                if batch.permissions is not None:
                    break  # these permissions apply to the whole partition: no need to list the rest
    excess = report.excess.postgres + report.excess.qdrant
    if excess:
        alert(
            settings,
            f"The permission audit of {label(source)} found {excess} grants that the source does not give. They were revoked. "
            "See: concordance audit grants --since 1d",
        )
    return report


def _rights(stores: Stores, batch: Batch) -> Iterator[list[_Rights]]:
    """Yield stored and granted permissions for the documents of a batch, or for its whole partition."""
    statements = PermissionAudit(stores.connection, stores.source.value)
    if batch.permissions is None:
        items = {item.source_id: item for item in batch.seen}
        ids = list(items)
        for start in range(0, len(ids), PAGE_DOCUMENTS):
            rows = statements.granted(source_ids=ids[start : start + PAGE_DOCUMENTS])
            yield [_of(row, _given(row, items[row.source_id])) for row in rows]
        return
    after = ""
    while page := statements.granted_in(partition=batch.partition, after=after, most=PAGE_DOCUMENTS):
        after = page[-1].source_id
        yield [_of(row, frozenset(granted(batch.permissions, row.owner, row.tags))) for row in page]


def _given(row: StoredGrants, item: Item) -> frozenset[str]:
    """Return who may read what is stored of a document: readers who came with a later version of it come with the next sync."""
    given = frozenset(effective_permissions(item))
    return given if row.version == item.version else given.intersection(row.permissions)


def _of(row: StoredGrants, given: frozenset[str]) -> _Rights:
    return _Rights(row.doc_id, row.source_id, row.partition, frozenset(row.permissions), given)


def _settle(stores: Stores, names: list[str], page: list[_Rights], report: AuditReport) -> None:
    """Count and correct a page of documents, excess grants first."""
    report.checked += len(page)
    statements = PermissionAudit(stores.connection, stores.source.value)
    too_much = [rights for rights in page if rights.excess]
    if too_much:
        with stores.connection.transaction():
            statements.narrow(rows=[rights.row() for rights in too_much])
            withhold_documents(stores.connection, stores.withheld, [rights.doc_id for rights in too_much])
            stores.documents.raise_version()
    too_little = [rights for rights in page if rights.missing]
    if too_little:
        _give(stores, too_little)
    indexed = {name: qdrant.grants(stores.qdrant, name, [rights.doc_id for rights in page]) for name in names}
    outdated: list[_Rights] = []
    for rights in page:
        variants = [variant for points in indexed.values() for variant in points.get(rights.doc_id, ())]
        excess = frozenset[str]().union(*variants) - rights.given
        missing = frozenset(right for right in rights.given if any(right not in variant for variant in variants))
        report.excess.qdrant += len(excess)
        report.missing.qdrant += len(missing)
        if excess or missing:
            outdated.append(rights)
        if (excess or rights.excess) and len(report.examples) < EXAMPLES:
            report.examples.append(f"{rights.source_id}: {', '.join(sorted(excess | rights.excess))}")
    report.excess.postgres += sum(len(rights.excess) for rights in too_much)
    report.missing.postgres += sum(len(rights.missing) for rights in too_little)
    _update_payloads(stores, names, [rights.doc_id for rights in outdated])
    report.repaired += len({rights.doc_id for rights in (*too_much, *too_little, *outdated)})


def _give(stores: Stores, too_little: list[_Rights]) -> None:
    """Add missing grants. Where users supply the documents and may change them meanwhile, the next sync does this from a new listing."""
    statements = PermissionAudit(stores.connection, stores.source.value)
    if capabilities(stores.source).user_supplied:
        statements.mark_changed(doc_ids=[rights.doc_id for rights in too_little])
        days = sorted({rights.partition for rights in too_little})
        statements.mark_for_relisting(partitions=days)
        return
    with stores.connection.transaction():
        statements.grant(rows=[rights.row() for rights in too_little])
        stores.documents.raise_version()


def _update_payloads(stores: Stores, names: Iterable[str], doc_ids: list[str]) -> None:
    """Update the payloads of these documents from the registry."""
    if not doc_ids:
        return
    rows = stores.index.rows(doc_ids=doc_ids)
    for name in names:
        write_payloads(stores, name, rows)
