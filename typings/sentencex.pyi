"""What we use of `sentencex`, a native module without types."""

from typing import TypedDict

class Boundary(TypedDict):
    start_index: int
    text: str

def get_sentence_boundaries(language: str, text: str) -> list[Boundary]: ...
