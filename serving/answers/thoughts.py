"""Leave out what a model thinks before its answer: Qwen, DeepSeek and others write `<think>…</think>`, which not every server takes out."""

BEGIN, END = "<think>", "</think>"


class Thoughts:
    """Takes an answer in pieces, and returns them without the thoughts at its beginning."""

    def __init__(self) -> None:
        self._held: str | None = ""
        """The beginning, until it is known what is an answer; then None."""

    def feed(self, piece: str) -> str:
        """Return what is known of the answer with this piece."""
        if self._held is None:
            return piece
        self._held += piece
        answer, begun = self._held, self._held.lstrip()
        if begun.startswith(BEGIN):
            answer = begun.partition(END)[2].lstrip()
        elif BEGIN.startswith(begun):
            answer = ""
        if answer:
            self._held = None
        return answer

    def close(self) -> str:
        """Return the rest of an answer that has ended. Thoughts without an end are no answer."""
        rest = self._held or ""
        return "" if rest.lstrip().startswith(BEGIN) else rest
