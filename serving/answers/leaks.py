"""Take what is ours out of an answer as it streams: bars, fences, and sentences of the prompt that small models repeat. Pure."""

import re
from collections.abc import Sequence

_MARGIN = re.compile(r"([ \t]*)(?:\|[ \t]*)*((?:(?:[-*•]|\d{1,2}[.)])[ \t]+)?)")
"""White space, bars, and the mark of a list."""
_UNDECIDED = re.compile(r"\d{1,2}[.)]?|[-*•]")
"""What may become the mark of a list."""
_LINES = ("==", "--- document", "Cite [1] to [")
"""How lines of ours begin that are different in each prompt."""


class Leaks:
    """Passes an answer on without our lines. `ours`: sentences of the prompts.

    A sentence of ours is one only at the start of a line or right after another of them. What may become one is kept back.
    """

    def __init__(self, ours: Sequence[str]) -> None:
        self._ours = [one.casefold() for one in ours]
        self._waiting: str = ""
        self._at_start = True
        self._removed = False
        """True if something was removed from the current line."""

    def feed(self, text: str) -> str:
        """Take a piece; return what may be shown of all that came so far and was not returned yet."""
        self._waiting += text
        return self._run(final=False)

    def finish(self) -> str:
        return self._run(final=True)

    def _run(self, *, final: bool) -> str:
        shown = ""
        while self._waiting:
            if self._at_start:
                prefix = self._start(final=final)
                if prefix is None:
                    break
                shown += prefix
            else:
                line, end, self._waiting = self._waiting.partition("\n")
                shown += line + end
                self._at_start = bool(end)
        return shown

    def _start(self, *, final: bool) -> str | None:
        """Remove one sentence or line of ours, or return what the line begins with. None when more must be seen first."""
        line, end, rest = self._waiting.partition("\n")
        whole = bool(end) or final
        indent, mark, bare = _parts(line)
        if not whole and (not bare or _UNDECIDED.fullmatch(bare)):
            return None
        if not whole and any(one.startswith(bare) for one in _LINES):
            return None
        if bare.startswith(_LINES):
            if not whole:
                return None
            self._waiting, self._removed = rest, False
            return ""
        folded = bare.casefold()
        if not whole and any(len(one) > len(folded) and one.startswith(folded) for one in self._ours):
            return None
        own = max((one for one in self._ours if folded.startswith(one)), key=len, default="")
        if own:
            self._waiting, self._removed = bare[len(own) :] + end + rest, True
            return ""
        if self._removed and not bare:  # nothing but ours was on this line
            self._waiting, self._removed = rest, False
            return ""
        prefix = mark if self._removed else indent + mark
        self._waiting, self._at_start, self._removed = bare + end + rest, False, False
        return prefix


def _parts(line: str) -> tuple[str, str, str]:
    """Return a line's indentation, its list mark and the rest, without bars."""
    margin = _MARGIN.match(line)
    if margin is None:
        return "", "", line
    return str(margin[1]), str(margin[2]), line[margin.end() :]
