"""The sizing page: what it multiplies follows from what it says was measured, and the formula from its definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.scale_model import (
    CONTENT_BYTES,
    DOCUMENTS,
    EMBEDDING_MILLION,
    MACHINE_CORES,
    MACHINE_HOUR,
    PASSAGES,
    Measured,
    Row,
    drawn_from,
    duration,
    hire,
    parse,
    rounded,
    size,
    solve,
    summary,
    tables,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "scale.md").read_text(encoding="utf-8")


def test_the_page_multiplies_what_it_says_was_measured() -> None:
    for table in tables(parse(PAGE)).split("\n\n"):
        assert table in PAGE


def test_the_picture_shows_the_figures_of_the_page() -> None:
    assert drawn_from(parse(PAGE)) in (DOCS / "images" / "scale.svg").read_text(encoding="utf-8"), (
        "run: make plot-scale"
    )


def test_the_page_has_all_stores_and_steps() -> None:
    measured = parse(PAGE)
    assert {row.where for row in measured.disk} == {"Postgres", "vector index", "lake", "stored bytes"}
    assert {"raw", "parsed", "chunked", "embedded", "indexed"} <= {row.part for row in measured.cpu}
    assert {"documents", "chunks", "index_entries"} <= {row.part for row in measured.disk}


def test_the_text_agrees_with_the_tables() -> None:
    measured = parse(PAGE)
    model = next(row for row in measured.cpu if row.where == "model")
    postgres = sum(row.at() for row in measured.disk if row.where == "Postgres")
    everything, on_disk = measured.memory
    listing = next(row for row in measured.cpu if row.part.startswith("list"))
    text = " ".join(PAGE.split())
    assert f"takes {duration(model.at())} of a core, so 16 cores need {duration(model.at() / 16)}" in text
    assert f"{size(everything.at())} with full vectors and {size(on_disk.at())} with" in text
    assert f"is checked: {size(postgres)}, of which" in text
    assert f"the whole root, {duration(listing.at())} of a core" in text


def test_a_document_and_a_passage_are_told_apart() -> None:
    small, large = (100 * 7 + 100 * 3, 100, 100), (50 * 7 + 450 * 3, 50, 450)
    assert solve(small, large) == pytest.approx((7, 3))


def test_noise_below_zero_counts_as_nothing() -> None:
    assert solve((100.0, 100, 100), (900.0, 100, 1_000)) == (pytest.approx(0.111), pytest.approx(0.889))
    assert solve((10.0, 100, 100), (1_000.0, 100, 1_000))[0] == 0


@pytest.mark.parametrize(("figure", "shown"), [(0, 0), (-3, 0), (1234, 1230), (0.012345, 0.0123), (999.6, 1000)])
def test_three_digits_are_kept(figure: float, shown: float) -> None:
    assert rounded(figure) == pytest.approx(shown)


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (387_000_000_000, "387 GB"), (10**13, "10 TB")]
)
def test_sizes_are_powers_of_ten(count: float, shown: str) -> None:
    assert size(count) == shown


def test_money_follows_from_the_prices() -> None:
    measured = Measured(
        [Row("Postgres", "chunks", 0, 10_000), Row("stored bytes", "blobs", 0.5, 0)],
        [Row("sync", "raw", 3.6, 0), Row("model", "embed", 0, 36)],
        [Row("384 dimensions", "int8, on disk", 0, 100)],
        200,
    )
    rows = {
        line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in summary(measured).splitlines()
    }
    assert rows["Postgres, on disk"] == ["1 TB", "80 a month"]
    assert rows["Stored bytes, in object storage"] == ["5 TB", "115 a month"]
    assert rows["Embedding, bundled model"] == ["41.7 days of a core", "40.8 once"]
    assert rows["… or text-embedding-3-small"][0] == "20 billion tokens"
    assert hire(3_600_000) == MACHINE_HOUR / MACHINE_CORES
    assert pytest.approx(400) == 200 * PASSAGES / 1e6 * EMBEDDING_MILLION
    assert CONTENT_BYTES / DOCUMENTS == 500_000


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table"):
        parse("# Sizing\n")
