"""What an installation needs at a size, from what one document and one passage cost; the tables of `docs/scale.md`.

`Row` holds one measured line. Figures are rounded before they are multiplied, so that the tables can be checked by hand.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

DOCUMENTS, PASSAGES, CONTENT_BYTES = 20_000_000, 100_000_000, 10**13
SECONDS_A_DAY = 86_400
MONTH_HOURS = 730

MACHINE_HOUR, MACHINE_CORES, MACHINE_MEMORY = 0.0816, 2, 8 * 2**30
"""US dollars an hour for 2 vCPU and 8 GiB (m7g.large, Linux, us-east-1, on demand); larger machines of the family cost proportionally.
Source: https://www.factualminds.com/blog/amazon-ec2-on-demand-pricing-instance-families-2026/ (17 June 2026)."""
DISK_MONTH = 0.08
"""US dollars for a GB of a gp3 volume and month (us-east-1). Source: https://aws.amazon.com/ebs/pricing/."""
OBJECT_MONTH = 0.023
"""US dollars for a GB of S3 Standard and month, the first 50 TB. Source: https://aws.amazon.com/s3/pricing/."""
EMBEDDING_MILLION = 0.02
"""US dollars for a million tokens of text-embedding-3-small. Source: https://developers.openai.com/api/docs/models/text-embedding-3-small
(3 July 2026)."""

BYTES, CPU, MEMORY = "bytes", "ms of CPU", "bytes of memory"
STORES = ("Postgres", "vector index", "lake", "stored bytes")
CHOSEN_MEMORY = "int8, on disk"
"""Layout whose memory the prices count: full vectors on disk."""


class Row(NamedTuple):
    """One measured line: a store and its part, and what a document and a passage take there."""

    where: str
    part: str
    document: float
    passage: float

    def at(self, documents: int = DOCUMENTS, passages: int = PASSAGES) -> float:
        """Return what that many documents and passages take."""
        return self.document * documents + self.passage * passages


class Measured(NamedTuple):
    """Everything that the benchmark measures. `tokens`: of a passage, as the bundled model counts."""

    disk: Sequence[Row]
    cpu: Sequence[Row]
    memory: Sequence[Row]
    tokens: float


def drawn_from(measured: Measured) -> str:
    """Return a hash of the measured figures, which a picture of them carries."""
    return hashlib.sha256(repr(measured).encode()).hexdigest()


def rounded(figure: float) -> float:
    """Round to three significant digits; what is below zero is noise."""
    if figure <= 0:
        return 0.0
    return round(figure, 2 - math.floor(math.log10(figure)))


def solve(small: tuple[float, int, int], large: tuple[float, int, int]) -> tuple[float, float]:
    """Return what a document and a passage take, from two batches: what each took, its documents and its passages."""
    taken, documents, passages = small
    other, others, more = large
    determinant = documents * more - others * passages
    return rounded((taken * more - other * passages) / determinant), rounded(
        (other * documents - taken * others) / determinant
    )


def size(count: float) -> str:
    """Return bytes as people write them, in powers of ten."""
    for name, unit in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= unit:
            return f"{rounded(count) / unit:.3g} {name}"
    return f"{count:.0f} B"


def duration(milliseconds: float) -> str:
    """Return CPU time as hours or days of one core."""
    days = milliseconds / 1000 / SECONDS_A_DAY
    return f"{rounded(days):g} days" if days >= 1 else f"{rounded(days * 24):g} hours"


def tables(measured: Measured) -> str:
    """Return the tables of the page, from the summary down to the lines that were measured."""
    return "\n\n".join([summary(measured), _disk(measured.disk), _cpu(measured.cpu), _memory(measured.memory)])


def summary(measured: Measured) -> str:
    """Return the table that a platform engineer reads first: what is needed at the size, and what it costs a month."""
    disk = {store: sum(row.at() for row in measured.disk if row.where == store) for store in STORES[:3]}
    content = CONTENT_BYTES * sum(row.document for row in measured.disk if row.where == STORES[3])
    memory = next(row.at() for row in measured.memory if row.part == CHOSEN_MEMORY)
    work = sum(row.at() for row in measured.cpu if row.where == "sync")
    model = sum(row.at() for row in measured.cpu if row.where == "model")
    tokens = measured.tokens * PASSAGES
    lines = [
        ("Stored bytes, in object storage", size(content), dollars(content / 1e9 * OBJECT_MONTH, "a month")),
        ("Lake, in object storage", size(disk["lake"]), dollars(disk["lake"] / 1e9 * OBJECT_MONTH, "a month")),
        ("Postgres, on disk", size(disk["Postgres"]), dollars(disk["Postgres"] / 1e9 * DISK_MONTH, "a month")),
        (
            "Vector index, on disk, one copy",
            size(disk["vector index"]),
            dollars(disk["vector index"] / 1e9 * DISK_MONTH, "a month"),
        ),
        (
            f"Vector index, in memory, one copy ({CHOSEN_MEMORY})",
            size(memory),
            dollars(memory / MACHINE_MEMORY * MACHINE_HOUR * MONTH_HOURS, "a month"),
        ),
        ("First sync without the model", f"{duration(work)} of a core", dollars(hire(work), "once")),
        ("Embedding, bundled model", f"{duration(model)} of a core", dollars(hire(model), "once")),
        (
            "… or text-embedding-3-small",
            f"{rounded(tokens / 1e9):g} billion tokens",
            dollars(tokens / 1e6 * EMBEDDING_MILLION, "once"),
        ),
    ]
    head = f"| {DOCUMENTS // 10**6} M documents, {PASSAGES // 10**6} M passages, {size(CONTENT_BYTES)} | needed | US dollars |"
    return "\n".join([head, "|---|---|---|", *(f"| {' | '.join(cells)} |" for cells in lines)])


def hire(milliseconds: float) -> float:
    """Return what a core costs for that long, in US dollars."""
    return milliseconds / 1000 / 3600 * MACHINE_HOUR / MACHINE_CORES


def dollars(amount: float, per: str) -> str:
    """Return an amount of money, to three digits."""
    figure = rounded(amount)
    return f"{figure:,.0f} {per}" if figure >= 100 else f"{figure:g} {per}"


def _disk(rows: Sequence[Row]) -> str:
    lines = ["| store | part | bytes a document | bytes a passage | at that size |", "|---|---|---|---|---|"]
    for row in rows:
        if row.where == STORES[3]:
            lines.append(
                f"| {row.where} | {row.part} | {row.document:g} × its content | 0 | {size(row.document * CONTENT_BYTES)} |"
            )
        else:
            lines.append(f"| {row.where} | {row.part} | {row.document:g} | {row.passage:g} | {size(row.at())} |")
    return "\n".join(lines)


def _cpu(rows: Sequence[Row]) -> str:
    lines = [
        "| step | of | ms of CPU a document | ms of CPU a passage | at that size, one core |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.part} | {row.where} | {row.document:g} | {row.passage:g} | {duration(row.at())} |" for row in rows
    ]
    return "\n".join(lines)


def _memory(rows: Sequence[Row]) -> str:
    lines = ["| vectors | of | bytes of memory a passage | at that size |", "|---|---|---|---|"]
    lines += [f"| {row.part} | {row.where} | {row.passage:g} | {size(row.at())} |" for row in rows]
    return "\n".join(lines)


def parse(page: str) -> Measured:
    """Return the measured figures of a page that holds these tables. Raises `ValueError` if a table is missing."""
    disk = [
        Row(cells[0], cells[1], float(cells[2].split()[0]), float(cells[3]))
        for cells in _cells(page, "| store | part |")
    ]
    cpu = [Row(cells[1], cells[0], float(cells[2]), float(cells[3])) for cells in _cells(page, "| step | of |")]
    memory = [Row(cells[1], cells[0], 0.0, float(cells[2])) for cells in _cells(page, "| vectors | of |")]
    tokens = re.search(r"A passage has ([0-9.]+) tokens", page)
    if tokens is None:
        raise ValueError("The page does not say how many tokens a passage has.")
    return Measured(disk, cpu, memory, float(tokens[1]))


def _cells(page: str, head: str) -> Iterable[list[str]]:
    at = page.find(head)
    if at < 0:
        raise ValueError(f"The page has no table that begins with {head!r}.")
    for line in page[at:].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]
