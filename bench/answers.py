"""Count the right quotes and the honest doubts of answers without a language model, on three sets of questions.

`python -m bench.answers [--list SET] [--time]`: the sample company, a company's handbook in `../shared/data/handbook` (left out where it
is absent), and documentation that installed packages ship. A third of each set, chosen by a hash, is kept aside: nothing is fitted on it.
The passages found for each question are kept, so that a change of what is quoted is tried in seconds. `--time` embeds everything again and
prints the milliseconds from passages to quotes. The last line is JSON, shares of 1.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.answer_sets import KEPT, Found, sets
from resources.embedding import embedder
from resources.embedding.background import CosineScale, cosine_scale
from resources.logging import configure
from resources.settings import Settings
from serving.answers.certainty import REFUSED, SURE, certainty
from serving.answers.context import gather
from serving.answers.extractive import Quote, choose, compose, measured, shortlist, without_strays
from serving.answers.gate import Judged, judge
from serving.answers.parts import cut
from serving.answers.styles import STYLES
from serving.search.embedding import EmbedsQueries
from serving.search.retrieval.passage import Passage


class Meaning:
    """The embedding model, with the vectors of earlier runs."""

    def __init__(self, model: EmbedsQueries, *, fresh: bool = False) -> None:
        self._model, self._fresh = model, fresh
        self.scale: CosineScale = cosine_scale(model)
        self._path = KEPT / "vectors.pickle"
        kept = self._path.exists() and not fresh
        self._vectors: dict[str, NDArray[np.float32]] = pickle.loads(self._path.read_bytes()) if kept else {}  # noqa: S301

    def __call__(self, question: str, found: Sequence[Quote]) -> list[float]:
        """Return how near each piece is to the question."""
        texts = list(dict.fromkeys([question, *(one.whole for one in found)]))
        wanted = texts if self._fresh else [text for text in texts if text not in self._vectors]
        if wanted:
            self._vectors.update(zip(wanted, self._model.embed(wanted), strict=True))
        asked = self._vectors[question]
        return [self.scale.relative(float(asked @ self._vectors[one.whole])) for one in found]

    def pieces(self, question: str, sources: Sequence[Passage]) -> list[Quote]:
        """Return the pieces of the passages that may answer."""
        nearness = [self.scale.relative(one.scores.dense or 0.0) for one in sources]
        listed = shortlist(
            question, [(one.heading, one.chunk_text) for one in sources], nearness, cut=[*map(cut, sources)]
        )
        return measured(listed, self(question, listed))

    def keep(self) -> None:
        if not self._fresh:
            self._path.write_bytes(pickle.dumps(self._vectors))


class Answered(NamedTuple):
    """A question with its answer: the rank of the first right quote, if any."""

    found: Found
    quotes: list[str]
    right: int | None
    judged: Judged
    sure: bool
    milliseconds: float


def answer(one: Found, meaning: Meaning, settings: Settings) -> Answered:
    """Answer a question from the passages found, as the answer service does."""
    judged = judge(one.searched, one.passages, settings.answer_gate, by_model=False)
    sources = sources_of(one, settings) if judged.passed else []
    passages = [(source.heading, source.chunk_text) for source in sources]
    began = time.perf_counter()
    pieces = meaning.pieces(one.searched, sources)
    known = certainty(one.searched, pieces, sources)
    sure = known >= SURE
    pieces = pieces if known >= REFUSED else []
    chosen = without_strays(choose(pieces, passages, [source.page_starts for source in sources]), sure=sure)
    _, quotes = compose(chosen)
    spent = (time.perf_counter() - began) * 1000
    cited = [sources[piece.number - 1] for piece in chosen]
    question = one.question
    right = next(
        (
            rank
            for rank, (quote, source) in enumerate(zip(quotes, cited, strict=True), start=1)
            if question.answered_by(quote.text, source)
        ),
        None,
    )
    return Answered(one, [quote.text for quote in quotes], right, judged, sure, spent)


def sources_of(one: Found, settings: Settings) -> list[Passage]:
    """Return the passages that an answer may quote."""
    return gather(
        one.passages,
        documents=5,
        passages=STYLES["short"].passages,
        budget=settings.answer_context_tokens,
        count=_tokens,
    )


def _tokens(text: str) -> int:
    return len(text) // 4


def figures(answers: Sequence[Answered]) -> dict[str, float]:
    """Return the figures of a set: shares of its questions with an answer, and of those without one."""
    yes = [one for one in answers if one.found.question.phrases]
    no = [one for one in answers if not one.found.question.phrases]
    right = [one for one in yes if one.right is not None]

    def share(some: int, all_: int) -> float:
        return round(some / all_, 3) if all_ else 0.0

    return {
        "questions": len(yes),
        "exact_at_1": share(sum(one.right == 1 for one in yes), len(yes)),
        "within_2": share(sum(one.right in (1, 2) for one in yes), len(yes)),
        "sure_wrong": share(sum(bool(one.quotes) and one.right is None and one.sure for one in yes), len(yes)),
        "uncertain_right": share(sum(not one.sure for one in right), len(right)),
        "unanswerable": len(no),
        "unanswerable_sure": share(sum(bool(one.quotes) and one.sure for one in no), len(no)),
        "refused": share(sum(not one.quotes for one in no), len(no)),
    }


def main() -> None:
    """Answer the questions and print the figures."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--list", metavar="SET", help="print the questions of a set that are not kept aside and went wrong"
    )
    parser.add_argument("--time", action="store_true", help="embed everything again, and print the time of an answer")
    arguments = parser.parse_args()
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    meaning = Meaning(embedder(settings), fresh=arguments.time)
    printed: dict[str, dict[str, Any]] = {}
    print(
        "set                  questions  first quote  first two  sure, wrong  right, uncertain  unanswerable  sure  refused"
    )
    for name, found in sets():
        if found is None:
            print(f"{name}: skipped, because its documents are not in ../shared/data/{name}")
            continue
        answers = [answer(one, meaning, settings) for one in found]
        for part, some in (
            (name, [one for one in answers if not one.found.question.aside]),
            (f"{name} (aside)", [one for one in answers if one.found.question.aside]),
        ):
            row = printed[part] = figures(some)
            print("{:20} {:9} {:12.3f} {:10.3f} {:12.3f} {:17.3f} {:13} {:5.3f} {:8.3f}".format(part, *row.values()))
        if arguments.time:
            print(f"{name}: {np.median([one.milliseconds for one in answers]):.1f} ms from passages to quotes, median")
        if arguments.list == name:
            _list(answers)
    meaning.keep()
    print(json.dumps({"sets": printed}))


def _list(answers: Sequence[Answered]) -> None:
    for one in answers:
        if one.right == 1 or one.found.question.aside:
            continue
        wrong = "no answer" if not one.found.question.phrases else one.found.question.phrases[0]
        print(f"- {one.found.question.question} ({'sure' if one.sure else 'uncertain'}; {wrong}; right: {one.right})")
        for quote in one.quotes:
            print(f"    {quote}")


if __name__ == "__main__":
    main()
