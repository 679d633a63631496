"""`reindex` and `cleanup`: another embedding model for the index while searches go on, the way back, and what is obsolete after that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.output import note, say, say_json

if TYPE_CHECKING:
    from assets.index.reindex import Estimate, Reindex
    from assets.index.targets import Target
    from orchestration.replay import ModelComparison
    from resources.settings import Settings

STEPS = 20
"""Lines of progress in one reindex."""


def reindex(
    *,
    model: Annotated[
        str | None,
        Parameter(
            help="A model's folder, all-MiniLM-L6-v2 (the bundled one), or a name at the OpenAI-compatible service."
        ),
    ] = None,
    dimensions: Annotated[int | None, Parameter(help="Length of the vectors, where the model lets one choose.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Begin. Without it, only cost and time are shown.")] = False,
    force: Annotated[bool, Parameter(negative="", help="Switch without asking questions of both indexes.")] = False,
    rollback: Annotated[
        bool, Parameter(negative="", help="Go back to the index that the last reindex replaced.")
    ] = False,
    json: Json = False,
) -> int:
    """Build the index with another embedding model beside the present one, compare them, and switch. Run again, it goes on."""
    from assets.index.reindex import open_reindex
    from assets.index.switch import switch
    from resources.core.errors import InvalidRequestError
    from resources.embedding import choose
    from resources.settings import load

    if rollback == (model is not None):
        raise InvalidRequestError("Give either --model M or --rollback.")
    settings = load()
    _check_database(settings)
    with open_reindex(settings) as work:
        present = work.active_name()
        made = work.kept() if rollback else work.wanted(choose(settings, str(model), dimensions))
        estimate = work.estimate(made)
        report: dict[str, Any] = {"from": present, "estimate": estimate, "questions": None, "switched": False}
        _show(estimate, work)
        if not (yes or rollback or _agreed()):
            note("Nothing was begun. Begin with --yes")
            return _end(report, 0, json=json)
        made = work.begin(made)
        work.fill(made, _progress(), estimate.to_embed)
        if not (rollback or force):
            verdict = _compare(work, made)
            report["questions"] = verdict
            if not verdict.passed:
                note(
                    f"The new index was not put to use: it loses {verdict.loss:.3f}, more than CONCORDANCE_REINDEX_MAX_LOSS="
                    f"{settings.reindex_max_loss:g}. Searches go on with the old one. Drop the new one with: "
                    "concordance cleanup --unfinished --yes"
                )
                return _end(report, 1, json=json)
        switch(work, made)
        report["switched"] = True
        if not json:
            say(f"Searches now use {made.collection.model}. Go back with: concordance reindex --rollback")
        _advise(settings, made)
        return _end(report, 0, json=json)


def cleanup(
    *,
    yes: Annotated[
        bool, Parameter(negative="", help="Drop it. Without this, only what would be dropped is shown.")
    ] = False,
    unfinished: Annotated[
        bool, Parameter(negative="", help="Also an index that a reindex has begun and not finished.")
    ] = False,
    vectors: Annotated[
        bool,
        Parameter(negative="", help="Also these models' vectors in the lake; using one again means embedding anew."),
    ] = False,
    json: Json = False,
) -> int:
    """Drop indexes that no search uses: replaced by a reindex, or with --unfinished begun by one."""
    from assets.index.reindex import open_reindex
    from assets.index.switch import drop, obsolete
    from resources.settings import load

    settings = load()
    _check_database(settings)
    with open_reindex(settings) as work:
        found = drop(work, unfinished=unfinished, vectors=vectors) if yes else obsolete(work, unfinished=unfinished)
    if json:
        say_json({"dropped": yes, "collections": found})
        return 0
    for one in found:
        what = "unfinished" if one.building else "replaced"
        say(f"{'dropped' if yes else 'would drop'}  {one.collection}  {one.model}  {one.points} points  {what}")
    if not found:
        note("Nothing is obsolete.")
    elif not yes:
        note("Nothing was dropped. Drop it with: concordance cleanup --yes. There is no way back to a dropped index.")
    return 0


def _check_database(settings: Settings) -> None:
    """Fail with clear words when Concordance does not run."""
    from orchestration.cli.installed import database

    with database(settings) as connection:
        connection.execute("SELECT FROM index_entries LIMIT 1")


def _show(estimate: Estimate, work: Reindex) -> None:
    from assets.embedded import spent

    money = "no money is known to be due" if estimate.cost_usd is None else f"${estimate.cost_usd:,.2f}"
    note(
        f"{estimate.model}, {estimate.dimensions} dimensions: {estimate.documents} documents, {estimate.chunks} chunks, of which "
        f"{estimate.to_embed} have no vector of this model yet ({estimate.tokens} tokens)."
    )
    if estimate.chunks_per_second is None:
        note("Nothing has to be embedded.")
        return
    note(f"Cost: {money}. Time: {_hours(estimate.hours)} at {estimate.chunks_per_second:g} chunks/s, as just measured.")
    limit = work.settings.embedding_budget
    if limit is not None and estimate.cost_usd and spent(work.connection) + estimate.cost_usd > limit:
        note(
            f"That is more than is left of this month's budget of ${limit:.2f}: it stops there and goes on when you run it again."
        )


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"


def _agreed() -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write("Begin? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _progress() -> Any:
    told = 0

    def tell(done: int, of: int) -> None:
        nonlocal told
        step = done * STEPS // max(1, of)
        if step > told:
            told = step
            note(f"{done} of {of} chunks embedded")

    return tell


def _compare(work: Reindex, made: Target) -> ModelComparison:
    from orchestration.replay import compare

    verdict = compare(work.settings, work.connection, work.active(), made)
    kind = "titles" if verdict.from_titles else "questions"
    note(
        f"{verdict.questions} {kind} asked of both: recall@10 {verdict.active.recall:.3f} → {verdict.new.recall:.3f}, "
        f"MRR {verdict.active.mrr:.3f} → {verdict.new.mrr:.3f}"
    )
    return verdict


def _advise(settings: Settings, made: Target) -> None:
    """Say which settings to change, so that they name the model that is in use."""
    from resources.embedding import choice

    if choice(settings)[:2] != made.choice[:2]:
        lines = [f"CONCORDANCE_EMBEDDING_PROVIDER={made.choice.provider}"]
        lines += [f"CONCORDANCE_EMBEDDING_MODEL={made.choice.source}"] if made.choice.source else []
        note(f"Let the settings name it, for a day on which the database does not answer: {' '.join(lines)}")


def _end(report: dict[str, Any], status: int, *, json: bool) -> int:
    if json:
        say_json(report)
    return status
