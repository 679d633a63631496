"""The bundled model through our own conversion: its vectors, its window, its cache on disk, and errors about wrong folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from resources.core.errors import ConfigurationError
from resources.embedding import tokenizer
from resources.embedding.convert import converted
from resources.embedding.folder import bundled_folder, read_folder
from resources.embedding.local import LocalEmbedder
from resources.settings import BUNDLED_MODEL, Settings
from resources.settings.limits import Prompts
from tests.fixtures.tiny_model import make_tiny_model

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "Travel expenses are refunded within thirty days.",
    "How long does it take until I get my money back for a trip?",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(cache: Path) -> LocalEmbedder:
    return LocalEmbedder(read_folder(None), cache)


@pytest.fixture(scope="module")
def exact(cache: Path) -> LocalEmbedder:
    return LocalEmbedder(read_folder(None), cache, quantization="float32")


def test_what_the_folder_says(model: LocalEmbedder) -> None:
    assert (model.model, model.dimensions, model.window, model.price_per_million) == (BUNDLED_MODEL, 384, 256, 0)


def test_cosines_are_those_that_the_model_is_known_for(exact: LocalEmbedder) -> None:
    rows = exact.embed(TEXTS)
    # Source: sbert.net, semantic search example with all-MiniLM-L6-v2
    assert rows[0] @ rows[1] == pytest.approx(0.7553, abs=2e-3)
    assert rows[0] @ rows[2] < 0.2
    assert rows[3] @ rows[4] > rows[3] @ rows[2] + 0.2


def test_int8_stays_close_to_exact(model: LocalEmbedder, exact: LocalEmbedder) -> None:
    texts = [*TEXTS, *(" ".join(TEXTS[start:] * 6) for start in range(5))]
    assert (model.embed(texts) * exact.embed(texts)).sum(axis=1).min() > 0.99


def test_company_in_a_batch_does_not_change_a_vector(model: LocalEmbedder) -> None:
    together = model.embed([*TEXTS, "word " * 240, "", "x"])[: len(TEXTS)]
    alone = np.stack([model.embed_query(text) for text in TEXTS])
    np.testing.assert_allclose((together * alone).sum(axis=1), 1, atol=1e-3)


def test_every_word_of_a_long_text_is_seen(model: LocalEmbedder) -> None:
    filler = "The committee met on Monday and discussed the agenda. " * 60
    bare, tail = model.embed([filler, filler + "Penguins breed in Antarctica. " * 60])
    penguins = model.embed_query("penguins in the Antarctic")
    assert tail @ penguins > bare @ penguins + 0.2


def test_tokens_begin_at_characters_of_the_text() -> None:
    text = "Hello, Größe — 42 km²!"
    starts = [start for start, _ in tokenizer().weighed(text)]
    pieces = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    assert pieces[:2] == ["Hello", ","]
    assert "".join(pieces) == text.replace(" ", "")
    assert tokenizer().count("word " * 1000) == 1000


def test_an_unknown_word_is_estimated_by_its_length() -> None:
    thai = "ต้องแจ้งล่วงหน้าสองสัปดาห์"
    assert tokenizer().count(thai) == 1
    assert tokenizer().estimate(thai) > 15
    assert tokenizer().estimate("word " * 1000) == 1000


def test_processes_that_convert_at_once_end_with_one_model(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from resources.embedding.convert import converted;"
        "from resources.embedding.folder import read_folder; print(converted(read_folder(None), Path(sys.argv[1]), 'int8'))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=120)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert answers == {str(path) for path in tmp_path.iterdir()}
    assert len(answers) == 1


def test_another_model_has_another_name_and_folder(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "our-model"
    shutil.copytree(bundled_folder(), folder)
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    pooling |= {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    other = LocalEmbedder(read_folder(str(folder)), cache)
    assert other.model.startswith("our-model@")
    assert converted(read_folder(str(folder)), cache, "int8") != converted(read_folder(None), cache, "int8")
    by_cls = other.embed_query("hello")
    assert np.linalg.norm(by_cls) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(by_cls, LocalEmbedder(read_folder(None), cache).embed_query("hello"), atol=1e-2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "roberta"}, "type 'roberta'"),
        ({"hidden_act": "silu"}, "activation 'silu'"),
        ({"num_hidden_layers": 7}, "no weight called"),
    ],
)
def test_a_model_that_cannot_be_run_says_why(tmp_path: Path, change: dict[str, object], said: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(bundled_folder(), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ConfigurationError, match=said):
        LocalEmbedder(read_folder(str(folder)), tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*model*"))


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    weights = {name: np.array(value) for name, value in load_file(folder / "model.safetensors").items()}
    weights["encoder.layer.0.output.dense.bias"][2] = np.inf
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(
        ConfigurationError, match=r"CONCORDANCE_EMBEDDING_MODEL: .*output\.dense\.bias contains NaN or infinity"
    ):
        LocalEmbedder(read_folder(str(folder)), tmp_path / "cache")
    (folder / "model.safetensors").write_bytes(whole[:-1000])
    with pytest.raises(ConfigurationError, match="is damaged"):
        LocalEmbedder(read_folder(str(folder)), tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*model*"))


def test_a_folder_that_is_no_model_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"lacks config\.json, tokenizer\.json, model\.safetensors"):
        read_folder(str(tmp_path))


def test_settings_that_the_model_cannot_follow(cache: Path) -> None:
    with pytest.raises(ConfigurationError, match="CONCORDANCE_EMBEDDING_DIMENSIONS"):
        LocalEmbedder(read_folder(None), cache, dimensions=100)
    with pytest.raises(ConfigurationError, match="CONCORDANCE_LIMITS__EMBEDDING_WINDOW"):
        LocalEmbedder(read_folder(None), cache, window=1000)


def test_torch_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from resources.embedding import embedder; from resources.settings import Settings;"
        "assert 'ctranslate2' not in sys.modules; embedder(Settings(home=sys.argv[1])).embed_query('x');"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)


def test_the_tokenizer_is_the_configured_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        tokenizer(Settings(home=tmp_path, embedding_model=str(tmp_path)))
    assert tokenizer(Settings(home=tmp_path)).count("hello world") == 2


def test_prompts_of_the_folder_precede_every_window(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "e5")
    plain = LocalEmbedder(read_folder(str(folder)), tmp_path)
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    model = LocalEmbedder(read_folder(str(folder)), tmp_path)
    assert model.model != plain.model
    assert model.model.startswith(plain.model)
    np.testing.assert_allclose(model.embed_query("ferry"), plain.embed_query("query: ferry"), atol=1e-5)
    np.testing.assert_allclose(model.embed(["ferry"])[0], plain.embed(["passage: ferry"])[0], atol=1e-5)
    long = "ferry " * 300
    windows = model.embed([long])[0]
    assert np.isfinite(windows).all()
    assert np.linalg.norm(windows) == pytest.approx(1, abs=1e-5)
    unprompted = LocalEmbedder(read_folder(str(folder)), tmp_path, prompts=Prompts())
    assert unprompted.model == plain.model
    np.testing.assert_array_equal(unprompted.embed_query("ferry"), plain.embed_query("ferry"))
