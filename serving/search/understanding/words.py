"""The words that the rules look for: nouns and verbs that speak of documents, and names of file types. English."""

from __future__ import annotations

import re
from collections.abc import Mapping

from resources.core.filetypes import DOCX, MIME_TYPES, MSG, ODP, PPTX, SHEETS, XLS, XLSB, XLSX

TYPES: Mapping[str, tuple[str, ...]] = {
    r"pdfs?(?: files?| documents?)?": (MIME_TYPES[".pdf"],),
    r"(?:excel )?(?:spread)?sheets?|excel files?|workbooks?": tuple(sorted(SHEETS)),
    # Google exports its slides as plain text
    r"slides?|slide ?decks?|decks?|presentations?": (PPTX, ODP, MIME_TYPES[".txt"]),
    r"power ?points?(?: files?| presentations?)?": (PPTX,),
    r"word (?:documents?|files?|docs?)": (DOCX,),
    r"csvs?(?: files?)?": (MIME_TYPES[".csv"],),
    r"json files?": (MIME_TYPES[".json"], MIME_TYPES[".jsonl"]),
    r"markdown files?": (MIME_TYPES[".md"],),
    r"html (?:files?|pages?)": (MIME_TYPES[".html"],),
    r"text files?": (MIME_TYPES[".txt"],),
    r"photos?|screenshots?|pictures?|images?": (MIME_TYPES[".png"], MIME_TYPES[".jpg"]),
}
OPERATOR_TYPES: Mapping[str, tuple[str, ...]] = {
    "excel": (XLSX, XLS, XLSB),
    "word": (DOCX,),
    "e-?mails?": (MIME_TYPES[".eml"], MSG),
}
"""Names that only an operator may use: in a question they are mostly something else."""
ANY_TYPE = "|".join(TYPES)
TYPE_HINT = re.compile(rf"\b(?:{ANY_TYPE})\b", re.IGNORECASE)
NOUN = (
    r"(?:documents?|docs?|files?|pages?|notes?|reports?|messages?|posts?|threads?|conversations?|chats?|discussions?|uploads?|articles?"
    r"|memos?|minutes|e-?mails?|drafts?)"
)
THING = rf"(?:{NOUN}|{ANY_TYPE}|anything|something|everything)"
GENERIC = re.compile(rf"{NOUN}|push", re.IGNORECASE)
"""Words that say nothing of a source: questions are about push messages, not about messages of the source `push`."""
REQUEST = (
    r"(?:(?:please|can you|could you|find|show|list|get|give|search(?: for)?|look(?:ing)? for|open|see|i need|i'm looking for"
    r"|i am looking for|where(?:'s| is| are)|which|what|do we have|is there|are there|we need|me|us)\s+)*"
)
_DETERMINER = r"(?:(?:the|a|an|any|all|our|my|his|her|their|that|this|those|these|some|latest|newest|most recent|recent|shared)\s+)*"
STARTS = rf"^{REQUEST}{_DETERMINER}"
SAY = r"(?:say|write|post|share|upload|mention|suggest|reply|propose|discuss)"
SAID = r"(?:wrote|said|posted|shared|uploaded|mentioned|sent|authored|published|suggested|replied|proposed|discussed)"
DONE = r"(?:written|posted|uploaded|shared|sent|created|authored|published|edited|made|said|added|modified|updated|changed)"
ENDS = (
    r"(?=\s*[?.!]?\s*$|\s*[,;:]|\s+(?:about|on|of|with|for|from|by|that|which|where|in|since|before|after|between|until|during|named|called|titled"
    r"|containing|mentioning|comparing|showing|describing|explaining|listing|regarding|concerning|last|this|over|within|yesterday|today|uploaded"
    r"|written|created|made|shared|updated|modified|edited|sent|posted|mentions?|says?|and|was|were|has|have)\b"
    rf"|\s+\w+(?:\s+\w+)?\s+{SAID}\b)"
)
INSTRUCTIONS = re.compile(
    r"\s*(?:how (?:do|can|to|should|could|would|does|did|is|are|many|much|long|often)|can i|can we|may (?:i|we)|should|why|what happens"
    r"|where (?:do|can) (?:i|we))\b",
    re.IGNORECASE,
)
"""Questions about doing something with documents, or about their number; their nouns are topics."""
ADDED = re.compile(r"\b(?:uploaded|created|added|upload)\b", re.IGNORECASE)
STRONG = re.compile(r"(?:uploaded|posted|written|authored|published)\b", re.IGNORECASE)
QUESTION = re.compile(
    r"\b(?:what|who|when|where|which|why|how|do|does|did|is|are|was|were|can|could|should|will|would|has|have|had)\b",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"(?:polic(?:y|ies)|rules?|guides?|guidelines?|opinions?|views?|information|decisions?|based|depends?|rely|relies|focus|spend|agree|work)\s+",
    re.IGNORECASE,
)
"""Words whose "on" says what they are about."""
AMBIGUOUS = re.compile(r"(?:presentation|image|picture|photo|sheet|deck)s?", re.IGNORECASE)
"""Types that texts are about, too: only asked for are they meant."""
NEGATED = re.compile(
    r"(?:\b(?:not|cannot|never|no|none|nobody|nothing|neither|nor|without|except|excluding|exclude|omit|skip|ignore|hide"
    r"|(?:all|any\w*|every\w*)(?:\s+\w+)?\s+but|(?:other|rather) than|instead of|(?:apart|aside) from|leave out)|n['’]t)"
    r"(?:\s+(?:a|an|the|any|our|my|one|ones|those|been|be|being|yet|ever|longer|only|as|by|for|from|in|on|show|include|want|need"
    r"|\w+(?:ed|en|ly))){0,4}\s+$|\bor\s+$",
    re.IGNORECASE,
)
"""Before a filter, these turn it round, or into one of two that may hold."""
AND_OR = r"\s*(?:[,/&]|\b(?:and|or)\b)(?:\s*\b(?:and|or)\b)?\s*"
AND_ALSO = rf"{AND_OR}(?:(?:in|on|from|within|across|by|the|an?|any|our|my)\s+)*"
OR_ELSE = re.compile(r"[\s,]*\bor\b", re.IGNORECASE)
JOINED = re.compile(r"[\s,]*(?:and|that (?:was|were)|which (?:was|were))?[\s,]*")


class OtherValues:
    """Finds other values beside one, as in a list: a filter on one alone would be another question."""

    def __init__(self, value: str) -> None:
        more = rf"(?:{NOUN}\s+(?:in|on|from)\s+)?"
        self._after = re.compile(rf"{AND_ALSO}{more}(?:{value})(?!\w)", re.IGNORECASE)
        self._before = re.compile(rf"(?<!\w)(?:{value})(?:\s+{NOUN})?{AND_ALSO}{more}$", re.IGNORECASE)

    def around(self, text: str, start: int, end: int) -> bool:
        """Return True if another value stands before or after the one from `start` to `end`."""
        return bool(self._after.match(text, end) or self._before.search(text[max(0, start - 100) : start]))
