"""Tokenization with a model's own tokenizer, to token ids or character spans. Thread-safe; never truncates."""

from collections.abc import Sequence
from pathlib import Path

from resources.core.errors import ConfigurationError


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
        bare = self._tokenizer.encode("").ids
        self.prefix: list[int] = bare[:1]
        """Ids of the special tokens before a text ([CLS])."""
        self.suffix: list[int] = bare[1:]
        """Ids of the special tokens after a text ([SEP])."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens."""
        cased = [text.lower() for text in texts] if self._lowercase else list(texts)
        return [found.ids for found in self._tokenizer.encode_batch_fast(cased, add_special_tokens=False)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of each token, without special tokens, in order."""
        return self._tokenizer.encode(text, add_special_tokens=False).offsets

    def count(self, text: str) -> int:
        """Return the number of tokens, without special tokens."""
        return len(self.ids([text])[0])
