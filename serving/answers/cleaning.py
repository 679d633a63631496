"""Clean what a model writes: citations in one form, no link, no HTML, nothing of the prompt; whole or piece by piece as it streams.

Text enters in any pieces and leaves as soon as nothing that follows can change it, so that however an answer was cut, the same
text comes out. The only links of an answer are those of its citations, which we make; a model may have been talked into others
by a document.
"""

import re

from serving.answers.addresses import IPV6_HOST, holds_address, without_addresses
from serving.answers.leaks import Leaks
from serving.search.quoting import INVISIBLE, JOINED, JOINERS, TAG

MAX_SPAN = 400
"""Longest label, tag or address that is waited for; what goes on longer is plain text."""

MAX_HOST = 80
"""Longest host in brackets."""

_CITED = (
    r"(?:\^|#|(?:sources?|doc(?:ument)?|quellen?|r[ée]f\.?)(?:\s*:\s*|\s+)#?)?(\d{1,4})(?:\s*[-–]\s*(\d{1,4}))?"
    r"(?:\s*,\s*(?:pp?\.|s\.|page|seite)\s*\d+(?:\s*[-–]\s*\d+)?)?(?:(?::\d+)?†[^,;]*+)?"
)
"""The number of a source, or the first and last of several, as models write them, with page or the mark of another service."""
_ITEM = re.compile(_CITED, re.IGNORECASE)
_CITATION = re.compile(rf"\s*{_CITED}(?:\s*(?:,|;|and|&)\s*{_CITED})*\s*", re.IGNORECASE)
_ELSEWHERE = re.compile(r"#|r[ée]f|quelle|,\s*(?:pp?\.|s\.|page|seite)", re.IGNORECASE)
"""What numbers something else than our sources: [#123] is a ticket."""
_INDEXED = re.compile(r"[\w)］]\Z")
_TAG = re.compile(TAG, re.IGNORECASE)
_NAMED = re.compile(r"</?[^\W\d_]")
_TAG_ENDS = re.compile(r"[<>\n]")
_OPENERS = "[<!【"
_PLAIN = re.compile(r"[^\s\[<!【]+")
_SPACES = re.compile(r"\s+")
_TIGHT = re.compile(r"[.,;:!?)\"'”’*_]+")
_LINKING = re.compile(r"\](?=[(:])")
"""What makes a Markdown link of a label in brackets (`[a](x)`) or defines one (`[a]: x`)."""


class Cleaner:
    """Cleans one answer whose sources are numbered 1 to `sources`. `citations` and `links` count what was removed.

    `leaks` takes out what the model repeats of its prompt; text of documents is cleaned without it.
    """

    def __init__(self, sources: int, leaks: Leaks | None = None) -> None:
        self._sources = sources
        self._leaks = leaks
        self._waiting = ""
        self._edge = ""
        """A letter and the joiners after it: what follows decides whether they stay."""
        self._space = ""
        self._begun = False
        self._removed = False
        self._last = ""
        self._line = ""
        """What of the current line was shown before the last token."""
        self._opened = 0
        """Angle brackets of the line that begin no tag and are not closed yet."""
        self.citations = 0
        self.links = 0

    def feed(self, text: str) -> str:
        """Take a piece; return what may be shown of all that came so far and was not returned yet."""
        text = self._edge + text
        body = text.rstrip(JOINERS)
        letter = body[-1:] if re.match(JOINED, body[-1:]) else ""
        self._edge = letter + text[len(body) :][:2]  # of several joiners in a row, none stays
        self._take(INVISIBLE.sub("", body).removesuffix(letter))
        return self._run(final=False)

    def finish(self) -> str:
        self._take(INVISIBLE.sub("", self._edge))
        if self._leaks:
            self._waiting += self._leaks.finish()
        return self._run(final=True)

    def _take(self, plain: str) -> None:
        self._waiting += self._leaks.feed(plain) if self._leaks else plain

    def _run(self, *, final: bool) -> str:
        shown: list[str] = []
        at, text = 0, self._waiting
        while at < len(text):
            length = self._step(text, at, final, shown)
            if length is None:
                break
            at += length
        self._waiting = text[at:]
        return "".join(shown)

    def _step(self, text: str, at: int, final: bool, shown: list[str]) -> int | None:
        """Take one token from `at`; return its length, or None when more must be seen first."""
        character = text[at]
        if character.isspace():
            match = _SPACES.match(text, at)
            end = match.end() if match else at + 1
            if end == len(text) and not final:
                return None
            self._space += text[at:end]
            self._opened = 0 if "\n" in self._space else self._opened
            return end - at
        if character in "[【":
            return self._bracket(text, at, final, shown)
        if character == "<":
            return self._tag(text, at, final, shown)
        if character == "!":
            if at + 1 == len(text) and not final:
                return None
            if text[at + 1 : at + 2] == "[":
                return 1  # an image is a link
            return self._emit("!", shown)
        return self._word(text, at, final, shown)

    def _emit(self, token: str, shown: list[str]) -> int:
        if self._begun:
            if self._removed and _TIGHT.fullmatch(token):
                self._space = ""
            elif self._removed and "\n" not in self._space:
                # never nothing: what stood around what was removed must not grow together into an address
                self._space = " "
            if not self._space and self._links(token):
                self._space = " "
            shown.append(self._space)
        self._line = "" if "\n" in self._space else f"{self._line}{self._last}"[-MAX_SPAN:]
        self._begun, self._removed, self._space = True, False, ""
        self._last = token
        shown.append(_LINKING.sub("] ", token))
        return len(token)

    def _links(self, token: str) -> bool:
        """Return True if the token makes a link, or the definition of one, of the label in brackets right before it."""
        if not self._last.endswith("]"):
            return False
        return token.startswith("(") or (token.startswith(":") and not any(map(str.isalnum, self._line)))

    def _drop(self, length: int) -> int:
        self._removed = True
        return length

    def _bracket(self, text: str, at: int, final: bool, shown: list[str]) -> int | None:
        literal = _is_ipv6_host(text, at, final)
        if literal is None:
            return None
        if literal:
            after = text.index("]", at) + 1
            if after == len(text) and not final:
                return None
            if text[after : after + 1] in tuple(":/\\?#"):
                return self._until_space(text, at, after, final, shown)
        closing = "]" if text[at] == "[" else "】"
        limit = min(len(text), at + MAX_SPAN)
        end = at + 1
        while end < limit and text[end] not in f"\n[【{closing}":
            end += 1
        if end >= limit:
            if end == len(text) and not final and end - at < MAX_SPAN:
                return None
            return self._emit(text[at], shown)
        if text[end] != closing:
            return self._emit(text[at], shown)
        target = self._target(text, end + 1, final)
        if target is None:
            return None
        label = text[at + 1 : end]
        self.links += target > 0
        if label == "0" and not self._space and not self._removed and _INDEXED.search(self._last):
            self._emit("［0］", shown)  # items[0] cites nothing, and is no button either
        elif cited := _cited(label, self._sources):
            self._cite(cited, shown)
        elif target:
            inner = self._without_addresses(label)
            if inner.strip():
                self._emit(inner, shown)
            self._drop(0)
        elif holds_address(label):
            self._emit(f"[{self._without_addresses(label)}]", shown)
        else:
            self._emit(text[at : end + 1], shown)
        return end + 1 + target - at

    def _target(self, text: str, at: int, final: bool) -> int | None:
        """Return the length of a link's target at `at`: `(…)`, `[…]` of a reference, or `: …` of its definition; 0 without one."""
        if at >= len(text):
            return 0 if final else None
        if text[at] != "(":
            return 0
        depth, limit = 0, min(len(text), at + 4 * MAX_SPAN)
        for end in range(at, limit):
            if text[end] == "\n":
                return 0
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                inner = text[at + 1 : end]
                # [2] (see below) and [x](y z) in prose are no links; an address or a path is
                return end + 1 - at if inner and not inner[0].isspace() and _is_target(inner) else 0
        return None if limit == len(text) and not final and limit - at < 4 * MAX_SPAN else 0

    def _cite(self, wanted: list[int], shown: list[str]) -> None:
        known = [number for number in dict.fromkeys(wanted) if 1 <= number <= self._sources]
        self.citations += len(set(wanted)) - len(known)
        if known:
            self._emit("".join(f"[{number}]" for number in known), shown)
        else:
            self._drop(0)

    def _tag(self, text: str, at: int, final: bool, shown: list[str]) -> int | None:
        if at + 1 == len(text):
            return None if not final else self._emit("<", shown)
        if not (text[at + 1].isalpha() or text[at + 1] in "/!?"):
            return self._emit("<", shown)
        limit = at + 4 * MAX_SPAN
        found = _TAG_ENDS.search(text, at + 1, limit)
        if found is None and not final and len(text) < limit:
            return None
        closed = found is not None and found.group() == ">"
        end = found.end() if found and closed else at + 1
        held = holds_address(text[at + 1 : end - 1])
        if _NAMED.match(text, at) and not held and not _TAG.fullmatch(text, at, end):
            self._opened += 1
            return self._emit("‹", shown)
        self.links += held
        return self._drop(end - at)

    def _word(self, text: str, at: int, final: bool, shown: list[str]) -> int | None:
        match = _PLAIN.match(text, at)
        end = match.end() if match else at + 1
        if end == len(text) and not final and end - at < 4 * MAX_SPAN:
            return None
        word = text[at:end]
        literal = _is_ipv6_host(text, end, final) if word[-1] in "/\\:@" else False
        if literal is None:
            return None
        if literal or (end < len(text) and text[end] in _OPENERS and holds_address(word)):
            return self._until_space(text, at, end, final, shown)  # an address goes on through brackets
        shut = min(self._opened, word.count(">"))
        self._opened -= shut
        self._emit(self._without_addresses(word).replace(">", "›", shut), shown)
        return end - at

    def _until_space(self, text: str, at: int, known: int, final: bool, shown: list[str]) -> int | None:
        """Take everything from `at` to the next white space as one word; up to `known` there is none."""
        space = _SPACES.search(text, known)
        if space is None and not final and len(text) - at < 4 * MAX_SPAN:
            return None
        end = space.start() if space else len(text)
        self._emit(self._without_addresses(text[at:end]), shown)
        return end - at

    def _without_addresses(self, text: str) -> str:
        shown, removed = without_addresses(text)
        self.links += removed
        return shown


def _is_ipv6_host(text: str, at: int, final: bool) -> bool | None:
    """Return True if a host in brackets, such as `[2001:db8::1]`, is at `at`; None when more must be seen first."""
    if text[at : at + 1] != "[":
        return False
    end = text.find("]", at, at + MAX_HOST)
    if end < 0:
        return None if not final and len(text) - at < MAX_HOST else False
    return IPV6_HOST.fullmatch(text, at, end + 1) is not None


def _cited(label: str, sources: int) -> list[int]:
    """Return the numbers that a label in brackets cites; none for other labels, and for ranges beyond the sources, such as of years.

    A plain number that is no source was meant as one.
    """
    found = list[int]()
    for first, last in _ITEM.findall(label) if _CITATION.fullmatch(label) else ():
        if last and not 0 < int(first) < int(last) <= sources:
            return []
        found += range(int(first), int(last or first) + 1)
    if _ELSEWHERE.search(label) and not any(0 < number <= sources for number in found):
        return []
    return found


def _is_target(inner: str) -> bool:
    return " " not in inner.strip() or holds_address(inner) or inner.startswith(("/", "#", "<", "."))


def clean(text: str, sources: int) -> tuple[str, int, int]:
    """Return a whole answer cleaned, and how many citations and links were removed."""
    cleaner = Cleaner(sources)
    shown = cleaner.feed(text) + cleaner.finish()
    return shown, cleaner.citations, cleaner.links
