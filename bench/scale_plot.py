"""Draw what an installation needs by its number of documents, from the figures that a page such as `docs/scale.md` shows.

`make plot-scale`, or `python -m bench.scale_plot docs/scale.md docs/images/scale.svg`, in an environment with matplotlib. The picture names
the figures that it shows by their hash (`drawn_from`), so that a test sees one that was not drawn again.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale_model import DOCUMENTS, PASSAGES, SECONDS_A_DAY, drawn_from, parse, size

# Any: installed by `make plot-scale` alone, so the type checker does not find it.
mpl: Any = import_module("matplotlib")
mpl.use("svg")
plt: Any = import_module("matplotlib.pyplot")

SIZES = (10_000, 100_000, 1_000_000, DOCUMENTS)
EACH = PASSAGES // DOCUMENTS
COLORS = ("#0b6e99", "#b3541e", "#3f7d3a", "#7a4fa3")
HOURS = ((1, "an hour"), (24, "a day"), (24 * 30, "30 days"))


def main() -> None:
    """Draw the picture."""
    page, target = Path(sys.argv[1]), Path(sys.argv[2])
    measured = parse(page.read_text(encoding="utf-8"))
    mpl.rcParams.update({"svg.hashsalt": "scale", "svg.fonttype": "path", "font.size": 9.5, "axes.titlesize": 10.5})
    figure, (space, work) = plt.subplots(1, 2, figsize=(10.4, 4.1), layout="constrained")
    stores = {
        "vector index, on disk": [row for row in measured.disk if row.where == "vector index"],
        "Postgres, on disk": [row for row in measured.disk if row.where == "Postgres"],
        "lake": [row for row in measured.disk if row.where == "lake"],
        "memory, int8 and vectors on disk": [row for row in measured.memory if row.part.endswith("on disk")],
    }
    for color, (name, rows) in zip(COLORS, stores.items(), strict=True):
        _line(space, name, [sum(row.at(count, count * EACH) for row in rows) for count in SIZES], color)
    space.set_title("Bytes, one copy", loc="left")
    space.yaxis.set_major_formatter(_bytes)
    steps = {
        "embedding, bundled model": [row for row in measured.cpu if row.where == "model"],
        "everything else": [row for row in measured.cpu if row.where == "sync"],
    }
    for color, (name, rows) in zip(COLORS, steps.items(), strict=False):
        taken = [sum(row.at(count, count * EACH) for row in rows) for count in SIZES]
        _line(work, name, [one / 1000 / SECONDS_A_DAY * 24 for one in taken], color)
    work.set_title("First sync, hours of one core", loc="left")
    work.yaxis.set_major_formatter("{x:g}")
    for hours, name in HOURS:
        work.axhline(hours, color="#999999", linewidth=0.6, linestyle=":")
        work.text(SIZES[0], hours * 1.06, name, color="#666666", fontsize=8)
    for one in (space, work):
        one.set_xlabel(f"documents of {EACH} passages")
        one.xaxis.set_major_formatter(_documents)
        one.set_xticks(SIZES)
        one.set_xlim(SIZES[0] * 0.85, SIZES[-1] * 1.3)
        one.minorticks_off()
        one.spines[["top", "right"]].set_visible(False)
        one.grid(visible=True, color="#eeeeee", linewidth=0.6)
        one.legend(frameon=False, loc="lower right", fontsize=8.5)
    figure.savefig(
        target, metadata={"Date": None, "Title": "What an installation needs", "Description": drawn_from(measured)}
    )
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


def _bytes(count: float, _: object) -> str:
    return size(count)


def _documents(count: float, _: object) -> str:
    return f"{count / 1e6:g} M" if count >= 1e6 else f"{count / 1e3:g} k"


def _line(axes: Any, name: str, values: list[float], color: str) -> None:
    axes.loglog(SIZES, values, color=color, linewidth=1.8, marker="o", markersize=3.5, label=name)


if __name__ == "__main__":
    main()
