"""What an answer warns of, when it is given and whenever it is opened again."""

from collections.abc import Collection

from resources.settings import BUNDLED_MODEL
from serving.answers.unanswered import FOREIGN, not_understood
from serving.search.retrieval.passage import Warning_

MODEL_DOWN = Warning_(
    "model_unavailable",
    "The language model did not answer: the best sentences of the sources are quoted instead.",
)
UNSUPPORTED = Warning_(
    "answer_unsupported",
    "What the language model wrote is not shown, because the sources support none of it: they are quoted instead.",
)
OTHER_LANGUAGE = Warning_(
    "other_language",
    "The answer is in another language than its sources. Only figures could be compared with them, so check the sentences that are marked.",
)
UNCERTAIN = Warning_(
    "uncertain",
    "It is not certain that the documents answer this question: the quotes are from the closest passages.",
)


def repeated(codes: Collection[str], question: str) -> list[Warning_]:
    """Return the warnings of a stored answer, by their codes, but for those that are about the services and documents of then."""
    found = [one for one in (MODEL_DOWN, UNSUPPORTED, OTHER_LANGUAGE, UNCERTAIN) if one.code in codes]
    foreign = not_understood(question, BUNDLED_MODEL) if FOREIGN in codes else None
    return [*found, foreign] if foreign else found
