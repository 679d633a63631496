"""Check each sentence of an answer against its sources: the rules of `support`, with the embedder for undecided sentences."""

from collections.abc import Sequence

from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.answers.citations import Sentence
from serving.answers.spoken import foreign_language
from serving.answers.support import MEANING, CitedText, Verdict, check, verdict
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.passage import Passage

FEWEST = 5
"""Stop words of another language that a source must have: names and tables of customers hold some."""

log = logger("serving")


class Checker:
    """Checks answers with the model that embeds queries; without it, only the words decide."""

    def __init__(self, embedder: QueryEmbedder) -> None:
        self._embedder = embedder

    @property
    def by_meaning(self) -> bool:
        """True if cosines of this model are calibrated."""
        return self._embedder.model in MEANING

    async def check(
        self, cut: Sequence[Sentence], sources: Sequence[Passage], question: str | None = None
    ) -> list[Verdict]:
        """Return a verdict a sentence, in order. `sources` are numbered from 1.

        What is written in the language of the question cannot be compared with sources in another one; without `question`, it is compared.
        """
        spoken = foreign_language(" ".join(sentence.text for sentence in cut))
        asked = question is not None and foreign_language(question) == spoken
        passages = {
            number: CitedText(one.chunk_text, one.heading, asked and foreign_language(one.chunk_text, FEWEST) != spoken)
            for number, one in enumerate(sources, start=1)
        }
        claims = [check(sentence, passages, by_meaning=self.by_meaning) for sentence in cut]
        unsettled = [(one.sentence.text, one.evidence) for one in claims if one.evidence is not None]
        near = iter(await self.cosines(unsettled) or [])
        least = MEANING.get(self._embedder.model, 1.0)
        return [verdict(one, next(near, None) if one.evidence is not None else None, least) for one in claims]

    async def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """Return the cosine of each pair of texts; None when the embedding model does not answer."""
        if not pairs:
            return []
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        try:
            vectors = dict(zip(texts, await self._embedder.texts(texts), strict=True))
        except ConcordanceError as error:
            log.warning("check_without_meaning", error=str(error))
            return None
        return [float(vectors[one] @ vectors[other]) for one, other in pairs]
