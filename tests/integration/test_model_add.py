"""Models from a folder, a wheel or a mirror: copied by hash, tried, and nothing is downloaded unasked."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from assets.reindex import Reindex
from orchestration.cli import models as command
from orchestration.cli.installed import database
from orchestration.evaluation.comparison import compare_reranker
from orchestration.model_trial import try_embedder, try_reranker
from resources.core.errors import ConfigurationError, InvalidRequestError, ServiceUnavailableError
from resources.embedding import embedder, embedder_of, recorded
from resources.embedding.cross_encoder import CrossEncoder
from resources.embedding.folder import bundled_folder, read_folder
from resources.embedding.obtain import hash_of, is_reranker, obtain
from resources.settings import Settings
from tests.fixtures.hub import hub
from tests.fixtures.installation import Installation
from tests.fixtures.tiny_model import make_tiny_model

NAME = "acme/tiny-embedder"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, home=tmp_path / "home")  # type: ignore[call-arg]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "tiny-embedder")


def test_a_model_of_a_mirror_is_copied_once_and_by_its_hash(settings: Settings, tiny: Path) -> None:
    (tiny / "README.md").write_text("Not needed.")
    (tiny / "pytorch_model.bin").write_bytes(b"never loaded: a pickle can execute anything")
    with hub() as mirror:
        mirror.models[NAME] = tiny
        settings = settings.model_copy(update={"model_mirror": mirror.address})
        folder = obtain(settings, NAME)
        got = [one.rpartition("/")[2] for one in mirror.requests if one.startswith("GET") and "/resolve/" in one]
        assert sorted(got) == ["config.json", "model.safetensors", "tokenizer.json"]
        assert obtain(settings, NAME, sha256=hash_of(tiny)) == folder
        with pytest.raises(InvalidRequestError, match="has the hash"):
            obtain(settings, NAME, sha256="0" * 64)
    assert (folder.name, hash_of(folder)) == ("tiny-embedder", hash_of(tiny))
    assert read_folder(str(folder)).name == "tiny-embedder"
    assert sorted(one.name for one in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert [one.name for one in (settings.home / "models" / "added").iterdir()] == [folder.parent.name]


def test_the_model_of_an_index_is_found_where_home_is_another(settings: Settings, tiny: Path, tmp_path: Path) -> None:
    before = settings.model_copy(update={"home": tmp_path / "before"})
    folder = obtain(before, str(tiny))
    row = {
        "model": embedder(before.model_copy(update={"embedding_model": str(folder)})).model,
        "provider": "local",
        "model_source": str(folder),
        "model_dimensions": None,
        "model_window": None,
        "model_prompts": None,
    }
    shutil.rmtree(before.home)
    obtain(settings, str(make_tiny_model(tmp_path / "other" / tiny.name, seed=1)))
    with pytest.raises(
        ConfigurationError, match=f"{row['model']}, which is no longer in {folder}.*concordance model add"
    ):
        embedder_of(settings, row)
    named = settings.model_copy(update={"embedding_model": str(tiny)})
    assert embedder_of(named, row).model == row["model"]
    added = obtain(settings, str(tiny))
    assert embedder_of(settings, row).model == row["model"]
    chosen = recorded(settings, row)
    assert chosen is not None
    assert chosen.source == str(added)


def test_nothing_is_downloaded_without_a_mirror(settings: Settings) -> None:
    with pytest.raises(InvalidRequestError, match="set CONCORDANCE_SEARCH__MODEL_MIRROR"):
        obtain(settings, NAME)


def test_faults_of_a_mirror_are_named_and_leave_nothing(settings: Settings, tiny: Path) -> None:
    with hub() as mirror:
        settings = settings.model_copy(update={"model_mirror": mirror.address})
        with pytest.raises(InvalidRequestError, match="There is no model acme/tiny-embedder"):
            obtain(settings, NAME)
        (tiny / "model.safetensors").unlink()
        mirror.models[NAME] = tiny
        with pytest.raises(InvalidRequestError, match=r"lacks model\.safetensors"):
            obtain(settings, NAME)
        mirror.fails = True
        with pytest.raises(ServiceUnavailableError, match="did not give the model"):
            obtain(settings, NAME)
    with pytest.raises(ServiceUnavailableError, match="did not give the model"):
        obtain(settings, NAME)  # nobody listens there any more
    assert list((settings.home / "models" / "added").iterdir()) == []


def test_a_wheel_gives_the_model_that_it_holds(settings: Settings, tiny: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "tiny_embedder-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("tiny_embedder/__init__.py", "")
        packed.writestr("../outside", "is not written")
        for one in tiny.iterdir():
            packed.write(one, f"tiny_embedder/model/{one.name}")
    folder = obtain(settings, str(wheel))
    assert (folder.name, hash_of(folder)) == ("tiny_embedder", hash_of(tiny))
    assert not list(settings.home.rglob("outside"))
    with zipfile.ZipFile(wheel, "a") as packed:
        for one in tiny.iterdir():
            packed.write(one, f"another/{one.name}")
    with pytest.raises(InvalidRequestError, match="holds 2 models"):
        obtain(settings, str(wheel))
    wheel.write_bytes(b"no zip")
    with pytest.raises(InvalidRequestError, match="cannot be read as a wheel"):
        obtain(settings, str(wheel))


@pytest.mark.parametrize("how", ["damaged", "another method", "encrypted"])
def test_a_wheel_that_cannot_be_unpacked_is_named(how: str, settings: Settings, tiny: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "tiny_embedder-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for one in tiny.iterdir():
            packed.write(one, f"model/{one.name}")
    data = bytearray(wheel.read_bytes())
    if how == "damaged":
        data[100:140] = b"\xff" * 40
    for central in re.finditer(rb"PK\x01\x02", bytes(data)):
        local = int.from_bytes(data[central.start() + 42 : central.start() + 46], "little")
        if how == "encrypted":
            data[central.start() + 8] |= 1
            data[local + 6] |= 1
        elif how == "another method":
            data[central.start() + 10] = data[local + 8] = 99
    wheel.write_bytes(data)
    with pytest.raises(InvalidRequestError, match="cannot be read as a wheel"):
        obtain(settings, str(wheel))


def test_a_folder_that_cannot_be_read_is_named(settings: Settings, tiny: Path) -> None:
    (tiny / "tokenizer.json").unlink()
    (tiny / "tokenizer.json").symlink_to("/proc/self/mem")  # which not even root can read from its beginning
    with pytest.raises(InvalidRequestError, match="tiny-embedder cannot be copied"):
        obtain(settings, str(tiny))


def test_the_bundled_model_passes_its_trial_and_a_random_one_does_not(settings: Settings, tiny: Path) -> None:
    good = try_embedder(settings, obtain(settings, str(bundled_folder())))
    random = try_embedder(settings, obtain(settings, str(tiny)))
    assert good.found > good.questions / 2 > random.found
    assert good.related > good.floor
    assert good.passages_per_second > 0


def test_a_reranker_is_known_by_its_configuration(settings: Settings, tmp_path: Path) -> None:
    made = make_tiny_model(tmp_path / "tiny-reranker", cross_encoder=True)
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(config | {"architectures": ["BertForSequenceClassification"]}))
    folder = obtain(settings, str(made))
    assert is_reranker(folder)
    trial = try_reranker(settings, folder)
    assert 0 <= trial.threshold <= 1
    assert trial.found <= trial.questions
    shutil.copy(made / "tokenizer.json", made / "model.safetensors")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        try_reranker(settings, obtain(settings, str(made)))


def test_the_command_shows_speed_and_what_to_do_next(
    settings: Settings, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_HOME", str(settings.home))
    command.model_add(str(tiny), json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["kind"], report["sha256"]) == ("embedding", hash_of(tiny))
    assert set(report["trial"]) == set(report["present"])
    command.model_add(str(tiny))
    shown = capsys.readouterr()
    assert f"concordance reindex --model {report['folder']}" in shown.out
    assert "passages/s" in shown.out
    assert "It hardly finds answers" in shown.err


def test_the_gain_of_a_reranker_is_measured_with_titles_where_there_are_no_questions(
    installation: Installation, tmp_path: Path
) -> None:
    for number in range(3):
        installation.write(
            f"pier-{number}.md", f"# Pier {number}\n\nFerries of line {number} leave from pier {number}."
        )
    installation.sync()
    made = make_tiny_model(tmp_path / "tiny-reranker", cross_encoder=True)
    settings = installation.settings
    encoder = CrossEncoder(str(made), settings.home / "models")
    with database(settings) as connection:
        active = Reindex(settings, connection).active()
        gain = compare_reranker(settings, connection, active, encoder, threshold=0.0)
        nothing = compare_reranker(settings, connection, active, encoder, threshold=1.0)
    assert (gain.questions, gain.from_titles, gain.new.recall) == (3, True, 1.0)
    assert (nothing.active.recall, nothing.new.recall, nothing.passed) == (1.0, 0.0, False)
