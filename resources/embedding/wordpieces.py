"""Tokenization with a model's own tokenizer, to token ids or weighed tokens. Thread-safe; never truncates."""

from collections.abc import Sequence
from pathlib import Path

from resources.core.errors import ConfigurationError

_BYTES_A_TOKEN = 4
"""UTF-8 bytes of an unknown word that weigh as much as a token: the characters of an English one. A tokenizer of bytes needs at most
four times as many."""


class WordPieces:
    def __init__(self, folder: Path, *, lowercase: bool = False) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises bare Exception
            raise ConfigurationError(
                f"{folder}/tokenizer.json cannot be read: {error}", setting="CONCORDANCE_EMBEDDING_MODEL"
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._lowercase = lowercase
        self._unknown: int | None = self._tokenizer.token_to_id("[UNK]")
        bare = self._tokenizer.encode("").ids
        self.prefix: list[int] = bare[:1]
        """Ids of the special tokens before a text ([CLS])."""
        self.suffix: list[int] = bare[1:]
        """Ids of the special tokens after a text ([SEP])."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens."""
        cased = [text.lower() for text in texts] if self._lowercase else list(texts)
        return [found.ids for found in self._tokenizer.encode_batch_fast(cased, add_special_tokens=False)]

    def weighed(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the weight of each token, without special tokens, in order.

        A word with an unknown character, or of more than a hundred, is a single token: it weighs one for `_BYTES_A_TOKEN`.
        """
        found = self._tokenizer.encode(text, add_special_tokens=False)
        if self._unknown not in found.ids:
            return [(start, 1) for start, _ in found.offsets]
        return [
            (start, -(-len(text[start:end].encode()) // _BYTES_A_TOKEN) if token == self._unknown else 1)
            for token, (start, end) in zip(found.ids, found.offsets, strict=True)
        ]

    def count(self, text: str) -> int:
        """Return the number of tokens, without special tokens."""
        return len(self.ids([text])[0])

    def estimate(self, text: str) -> int:
        """Return how many tokens another model may need for a text: the sum of the weights."""
        return sum(weight for _, weight in self.weighed(text))
