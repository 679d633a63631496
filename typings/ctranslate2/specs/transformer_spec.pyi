from typing import Any

from ctranslate2.specs.common_spec import Activation, EmbeddingsMerge

class TransformerEncoderSpec:
    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        pre_norm: bool = ...,
        no_final_norm: bool = ...,
        activation: Activation = ...,
        num_source_embeddings: int = ...,
        embeddings_merge: EmbeddingsMerge = ...,
        layernorm_embedding: bool = ...,
    ) -> None: ...

class TransformerEncoderModelSpec:
    config: Any  # its attributes are set by name

    def __init__(self, encoder: TransformerEncoderSpec) -> None: ...
    def register_vocabulary(self, tokens: list[str]) -> None: ...
    def validate(self) -> None: ...
    def optimize(self, quantization: str | None = ...) -> None: ...
    def save(self, output_dir: str) -> None: ...
