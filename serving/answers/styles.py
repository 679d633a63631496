"""The styles of an answer: the instructions of the language model, how much it is shown, how long and how freely it may write."""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

StyleName = Annotated[
    Literal["short", "comprehensive", "chat", "page"],
    Meta(
        title="AnswerStyle",
        description="`short`: one to three sentences. `comprehensive`: three to six paragraphs with all that the sources say."
        " `chat`: at most two short paragraphs."
        " `page`: one paragraph for a reader of the text.",
    ),
]


EIGHT_PARTS = """For this answer:
1. Extraction: read all sources, and use every piece of them that is relevant.
2. Completeness: three to six paragraphs with all relevant information, and specific details instead of generalities.
3. Synthesis: put together what several passages say, those of one document first, into one answer.
4. Output: the final answer alone, in natural paragraphs, without the steps that led to it.
5. Questions about a document: a complete summary, with all of its main sections and its figures.
6. Questions for specifics: all relevant numbers, complete breakdowns, totals, categories and line items.
7. Accuracy: nothing made up, nothing rounded, nothing found left out.
8. Relevance: only the sources that are about the question; ignore the others."""
"""The eight parts of NeuroDrive's system prompt. What it says of missing information is in the rules of every style."""


class Style(NamedTuple):
    """`max_tokens` is far above what the instruction asks for, since an answer that is cut off is replaced by quotes.

    `rules` follow those of every style, before the sources; the instruction comes last.
    """

    instruction: str
    passages: int
    max_tokens: int
    temperature: float
    rules: str = ""


STYLES: Mapping[StyleName, Style] = {
    "short": Style("Answer in one to three sentences.", 8, 512, 0.0),
    "comprehensive": Style(
        "Answer in three to six paragraphs. Put together everything that the sources say about it, with all figures.",
        15,
        4096,
        0.7,
        EIGHT_PARTS,
    ),
    "chat": Style("Reply to the last message of the conversation in at most two short paragraphs.", 10, 1024, 0.3),
    "page": Style("Explain it to a reader of this text in one paragraph, in the words of the text.", 3, 768, 0.1),
}
"""`short`: the default of `/api/ask`. `comprehensive`: `/api/chat`; its figures are NeuroDrive's CHAT_LIMIT, MAX_TOKENS and TEMPERATURE.
`chat`: the default of `/api/ask` with a conversation. `page`: `/ask` and `/ask-local`; three passages as in the book assistant's FR-012."""
REWRITING = Style("", 0, 128, 0.0)
"""One line: the question made understandable without the conversation."""
