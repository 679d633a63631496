"""Measure what understanding the filters of a question costs, and what its words do to a ranking.

`python -m bench.understanding COLLECTION [OUTPUT]`; both are folders in BEIR layout. It prints the time that a query of the collection
takes to be read. OUTPUT receives the collection with filters put into its queries in words, for `concordance eval`: compared with the
collection itself, it shows what the words cost if they are searched for. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from datetime import date
from pathlib import Path

from resources.sources import specs
from serving.search.understanding.grammar import Grammar
from serving.search.understanding.people import may_hold_names
from serving.search.understanding.phrases import KINDS, Names

FORMS = (
    "What did Marta write in #support last week about {}",
    "the spreadsheet about {} from Drive, since March",
    "Slack messages by Tom this year on {}",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("collection", type=Path)
    parser.add_argument("output", type=Path, nargs="?")
    arguments = parser.parse_args()
    queries = [json.loads(line) for line in (arguments.collection / "queries.jsonl").read_text().splitlines()]
    grammar, spent = Grammar(specs()), list[float]()
    for text in [one["text"] for one in queries] * 5:
        began = time.process_time()
        may_hold_names(text)
        grammar.phrases(text, date(2026, 11, 23), KINDS, Names())
        spent.append((time.process_time() - began) * 1000)
    if arguments.output is not None:
        shutil.copytree(arguments.collection, arguments.output)
        framed = [one | {"text": FORMS[index % len(FORMS)].format(one["text"])} for index, one in enumerate(queries)]
        lines = "".join(json.dumps(one) + "\n" for one in framed)
        (arguments.output / "queries.jsonl").write_text(lines)
    figures = {
        "queries": len(queries),
        "mean_ms": statistics.mean(spent),
        "p99_ms": statistics.quantiles(spent, n=100)[98],
    }
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
