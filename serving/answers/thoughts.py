"""Leave out what a model thinks before its answer: Qwen, DeepSeek and others write `<think>…</think>`, which not every server takes out."""

BEGIN, END = "<think>", "</think>"


class Thoughts:
    """Takes an answer in pieces, and returns them without the thoughts at its beginning."""

    def __init__(self) -> None:
        self._held: str | None = ""
        """The beginning, until it is known what is an answer; then None. Of thoughts, only what may be the start of their end is kept."""
        self._thought = False

    def feed(self, piece: str) -> str:
        """Return what is known of the answer with this piece."""
        if self._held is None:
            return piece
        held = self._held + piece
        while (begun := held.lstrip()).startswith(BEGIN):
            thought, end, held = begun.removeprefix(BEGIN).partition(END)
            if not end:
                self._held = BEGIN + thought[1 - len(END) :]
                return ""
            self._thought = True
        answer = begun if self._thought else held
        self._held = answer if BEGIN.startswith(begun) else None
        return answer if self._held is None else ""

    def close(self) -> str:
        """Return the rest of an answer that has ended. Thoughts without an end are no answer."""
        rest = self._held or ""
        return "" if rest.lstrip().startswith(BEGIN) else rest


def answered(text: str) -> str:
    """Return a whole answer without the thoughts at its beginning, also if their opening tag was part of the prompt."""
    before, end, _ = text.partition(END)
    lacking = end and BEGIN not in before and before.count("`") % 2 == 0  # else the answer is about the tag
    thoughts = Thoughts()
    return thoughts.feed(f"{BEGIN}{text}" if lacking else text) or thoughts.close()
