"""What we use of `ctranslate2`, a native module without types."""

from collections.abc import Sequence

class StorageView:
    """An array; `numpy.array` takes it."""

    def __array__(self, dtype: object = ..., copy: bool | None = ...) -> object: ...

class EncoderForwardOutput:
    last_hidden_state: StorageView

class Encoder:
    def __init__(
        self, model_path: str, *, compute_type: str = ..., inter_threads: int = ..., intra_threads: int = ...
    ) -> None: ...
    def forward_batch(
        self, inputs: Sequence[Sequence[int]], *, token_type_ids: Sequence[Sequence[int]] | None = ...
    ) -> EncoderForwardOutput: ...
