"""Count how the sample company's questions are answered without a language model: found, uncertain or "No data found".

`python -m bench.questions [--list]` indexes the sample company into embedded services in a temporary folder and asks, each as someone who
may read the answer: the questions in the documents' words, paraphrases, and questions that no document answers, near misses among them.
An answer is right if a quote contains the words that answer the question. `--list` prints the questions that went wrong. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import NamedTuple

from bench.answer import indexed
from orchestration.demo import sample
from resources.core.domain import Access
from resources.logging import configure
from resources.settings import Settings
from serving.answers.cautions import UNCERTAIN
from serving.answers.gate import POOL, judge
from serving.answers.schemas import AskRequest
from serving.search.retrieval.query import search_query
from serving.services import Services
from tests.fixtures import sample_questions


class Asked(NamedTuple):
    """A question, what became of it, and whether a quote holds the answer."""

    question: str
    outcome: str
    right: bool
    first: bool
    """The document that answers comes first in the search."""
    to_model: bool
    """A language model would be asked."""


def main() -> None:
    """Ask the questions and print the figures."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the questions that went wrong")
    arguments = parser.parse_args()
    with indexed() as settings:
        found = asyncio.run(ask(settings))
    print("questions     all  sure  uncertain  no data  right quote  document first  to a model")
    figures: dict[str, dict[str, int]] = {}
    for kind, asked in found.items():
        row = figures[kind] = {"all": len(asked)}
        for outcome in ("sure", "uncertain", "none"):
            row[outcome] = sum(one.outcome == outcome for one in asked)
        row["right"] = sum(one.right for one in asked)
        row["first"] = sum(one.first for one in asked)
        row["to_model"] = sum(one.to_model for one in asked)
        print("{:12} {:4} {:5} {:10} {:8} {:12} {:15} {:11}".format(kind, *row.values()))
    if arguments.list:
        _list(found)
    print(json.dumps(figures))


def _list(found: dict[str, list[Asked]]) -> None:
    for kind, asked in found.items():
        for one in asked:
            wrong = one.outcome == "none" or not one.right if kind in ANSWERABLE else one.outcome != "none"
            if wrong:
                print(
                    f"{kind:12} {one.outcome:10} {'right' if one.right else '-':6} {'first' if one.first else '-':6} {one.question}"
                )


ANSWERABLE = ("documents'", "paraphrased")


def _questions() -> dict[str, list[sample.SampleQuestion]]:
    own = [*sample.questions(), *sample.questions(more=True)]
    unanswerable = sample_questions.unanswerable()
    return {
        "documents'": [one for one in own if one.source_id is not None],
        "paraphrased": sample_questions.paraphrased(),
        "near misses": [one for one in unanswerable if one.near],
        "off topic": [*(one for one in own if one.source_id is None), *(one for one in unanswerable if not one.near)],
    }


async def ask(settings: Settings) -> dict[str, list[Asked]]:
    """Return what became of each question, by kind."""
    services = Services(settings)
    await services.open()
    people = sample.people()
    try:
        return {
            kind: [await _ask(services, people[one.may[0] if one.may else "helen"], one) for one in questions]
            for kind, questions in _questions().items()
        }
    finally:
        await services.close()


async def _ask(services: Services, person: sample.SampleReader, one: sample.SampleQuestion) -> Asked:
    groups = {f"group:{name}" for name in person.groups}
    principals = frozenset({person.email, f"domain:{person.email.partition('@')[2]}", "public", *groups})
    access = Access(email=person.email, principals=principals)

    async def current() -> Access:
        return access

    answer = await services.answers.ask(AskRequest(query=one.question), access, current)
    outcome = "none" if not answer.found else "uncertain" if UNCERTAIN in answer.warnings else "sure"
    quotes = " ".join(answer.answer.split())
    right = one.phrase is not None and answer.found and " ".join(one.phrase.split()) in quotes
    query = search_query(one.question, access, services.http.settings, limit=POOL, group=False)
    passages = (await services.search.retriever.search(query)).passages
    judged = judge(one.question, passages, None, by_model=True)
    return Asked(one.question, outcome, right, bool(passages) and passages[0].source_id == one.source_id, judged.passed)


if __name__ == "__main__":
    main()
