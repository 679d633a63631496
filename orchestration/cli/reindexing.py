"""The commands `reindex` and `cleanup`: preview what is indexed again, change the embedding model, roll back, and drop obsolete indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.installed import database
from orchestration.cli.output import confirmed, note, say, say_json
from resources.core.errors import BudgetExceededError, CapacityError, InvalidRequestError
from resources.settings import Settings, load

if TYPE_CHECKING:
    from assets.index.targets import Target
    from assets.preview import SourcePreview
    from assets.reindex import Estimate, Reindex
    from orchestration.evaluation.comparison import ModelComparison

STEPS = 20
"""Progress lines per reindex."""


def reindex(
    *,
    model: Annotated[
        str | None,
        Parameter(
            help="The folder of a model, all-MiniLM-L6-v2 (the bundled one), or a model name of the OpenAI-compatible service."
        ),
    ] = None,
    dimensions: Annotated[int | None, Parameter(help="Length of the vectors, for models with a choice.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Start. Without this, only cost and time are shown.")] = False,
    force: Annotated[
        bool,
        Parameter(
            negative="",
            help="Switch without comparing both indexes, and without documents that the model cannot embed.",
        ),
    ] = False,
    rollback: Annotated[
        bool, Parameter(negative="", help="Go back to the index that the last reindex replaced.")
    ] = False,
    full: Annotated[
        bool, Parameter(negative="", help="Show what full syncs, or backfills of all partitions, would index again.")
    ] = False,
    json: Json = False,
) -> int:
    """Build a second index with another embedding model, compare both, and switch; without a model, preview what the next syncs index
    again."""
    from assets.cutover import promote
    from assets.index.again import SETTING
    from assets.reindex import lacking, open_reindex
    from resources.embedding import choose

    if rollback and model is not None:
        raise InvalidRequestError("Give either --model M or --rollback.")
    if full and (rollback or model is not None):
        raise InvalidRequestError("--full previews syncs with the present model: leave out --model and --rollback.")
    settings = load()
    _check_database(settings)
    if not rollback and model is None:
        if yes or force:
            raise InvalidRequestError(
                "Without --model M there is nothing to start: the next syncs index again what has changed."
            )
        return _preview(settings, full=full, json=json)
    with open_reindex(settings) as work:
        present = work.active_name()
        made = work.kept() if rollback else work.wanted(choose(settings, str(model), dimensions))
        estimate = work.estimate(made)
        report: dict[str, Any] = {"from": present, "estimate": estimate, "questions": None, "switched": False}
        _show(estimate, work)
    if not (yes or rollback or confirmed("Start? [y/N] ")):  # others may work while it asks
        note("Nothing was started. Start with --yes")
        return _end(report, 0, json=json)
    with open_reindex(settings) as work:
        made = work.begin(work.kept() if rollback else work.wanted(choose(settings, str(model), dimensions)))
        try:
            work.fill(made, _progress(), estimate.to_embed)
        except (BudgetExceededError, CapacityError):
            _tell_left(work, made, estimate, "")
            raise
        left_out = work.left_out()
        if settings.reindex_documents is not None and estimate.documents - len(left_out) > settings.reindex_documents:
            _tell_left(work, made, estimate, f" {SETTING} is {settings.reindex_documents}.")
            return _end(report, 0, json=json)
        if left_out:
            note(lacking(made, left_out))
            if not force:
                return _end(report, 1, json=json)
        if not (rollback or force):
            verdict = _compare(work, made)
            report["questions"] = verdict
            if not verdict.passed:
                note(
                    f"The new index is not used: {_why(verdict, settings)}. Searches keep using the old one. Drop the new one with: "
                    "concordance cleanup --unfinished --yes"
                )
                return _end(report, 1, json=json)
        promote(work, made, force=force)
        report["switched"] = True
        if not json:
            say(f"Searches now use {made.collection.model}. Roll back with: concordance reindex --rollback")
        _advise(settings, made)
        return _end(report, 0, json=json)


def cleanup(
    *,
    yes: Annotated[
        bool, Parameter(negative="", help="Drop them. Without this, only show what would be dropped.")
    ] = False,
    unfinished: Annotated[bool, Parameter(negative="", help="Also drop the index of an unfinished reindex.")] = False,
    vectors: Annotated[
        bool,
        Parameter(
            negative="",
            help="Also drop the vectors in the lake of models that no index uses; using such a model again embeds everything again.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Drop indexes that no search uses: those replaced by a reindex and, with --unfinished, an unfinished one."""
    from assets.cutover import drop, obsolete, unused_vectors
    from assets.reindex import open_reindex

    settings = load()
    _check_database(settings)
    with open_reindex(settings) as work:
        found = obsolete(work, unfinished=unfinished)
        unused = unused_vectors(work, found) if vectors else []
        if yes:
            found = drop(work, unfinished=unfinished, vectors=vectors, by="operator@localhost")
    if json:
        say_json({"dropped": yes, "collections": found, "vectors": unused})
        return 0
    for one in found:
        what = "unfinished" if one.building else "replaced"
        say(f"{'dropped' if yes else 'would drop'}  {one.collection}  {one.model}  {one.points} points  {what}")
    for name in unused:
        say(f"{'cleared' if yes else 'would clear'}  {name}  vectors in the lake")
    if not found and not unused:
        note("There are no obsolete indexes.")
    elif not yes:
        more = " --vectors" if unused else ""
        note(
            f"Nothing was dropped. To drop them, run: concordance cleanup{more} --yes. What is dropped cannot be restored."
        )
    return 0


def _check_database(settings: Settings) -> None:
    """Raise `NotRunningError` if the database is not responding."""
    with database(settings) as connection:
        connection.execute("SELECT FROM index_entries LIMIT 1")


def _show(estimate: Estimate, work: Reindex) -> None:
    from assets.embedded import spent

    cost = "unknown" if estimate.cost_usd is None else f"${estimate.cost_usd:,.2f}"
    note(
        f"{estimate.model}, {estimate.dimensions} dimensions: {estimate.documents} documents, {estimate.chunks} chunks, of which "
        f"{estimate.to_embed} have no vector of this model yet ({estimate.tokens} tokens)."
    )
    if estimate.chunks_per_second is None:
        note("Nothing needs to be embedded.")
        return
    for one in estimate.sources:
        note(
            f"    {one.source}: {one.documents} documents, {one.chunks} chunks, {one.to_embed} to embed ({one.tokens} tokens)"
        )
    note(f"Cost: {cost}. Time: {_hours(estimate.hours)} at {estimate.chunks_per_second:g} chunks/s, as just measured.")
    limit = work.settings.embedding_budget
    if limit is not None and estimate.cost_usd and spent(work.connection) + estimate.cost_usd > limit:
        note(
            f"This exceeds the rest of this month's budget of ${limit:.2f}. The reindex stops there; run it again to continue."
        )


def _tell_left(work: Reindex, made: Target, estimate: Estimate, why: str) -> None:
    """Print how far a reindex came that ended before its end, and why."""
    left = work.left(made)
    note(
        f"{estimate.documents - left:,} of {estimate.documents:,} documents were written to the new index.{why} Searches keep using the "
        "old one. Continue with the same command."
    )


def _preview(settings: Settings, *, full: bool, json: bool) -> int:
    """Show what the next syncs, or with `full` full ones, index again."""
    from assets.embedded import spent
    from assets.index.again import SETTING
    from assets.preview import preview
    from resources.sources import stored
    from resources.stores.clients import Stores
    from resources.stores.postgres import session
    from resources.syncs.jobs import stored_sources
    from resources.syncs.syncing import SyncJob

    with session(settings.postgres_dsn, autocommit=True) as connection:
        settings = stored.complete(settings, connection)
        found = [
            preview(SyncJob(Stores(settings, source, connection)), full=full) for source in stored_sources(connection)
        ]
        used = spent(connection)
    found = [one for one in found if one.documents]
    if json:
        say_json({"sources": found, "limit": settings.reindex_documents})
        return 0
    for one in found:
        _say_preview(one)
    if not found:
        say("Nothing is indexed again: every document is indexed as the settings and this version want it.")
        return 0
    limit = settings.reindex_documents
    if limit is None:
        note(f"To divide the work among several runs, or to hold it up, set {SETTING}.")
    elif limit == 0:
        note(f"{SETTING} is 0, so none of this is done.")
    else:
        runs = max(-(-one.documents // limit) for one in found)
        note(f"{SETTING} is {limit}, so this takes {runs} {'run' if runs == 1 else 'runs'}.")
    _tell_budget(settings, used, sum(one.cost_usd or 0.0 for one in found))
    return 0


def _say_preview(one: SourcePreview) -> None:
    fetched = f"{one.fetch:,} fetched from the source, " if one.fetch else ""
    about = "" if one.sampled is None else "about "
    say(
        f"{one.source}: {one.documents:,} documents are indexed again: {fetched}{one.parse:,} parsed, {one.split:,} split; {about}"
        f"{one.passages:,} passages, of which {about}{one.embed:,} need a vector ({one.tokens:,} tokens)."
    )
    cost = "unknown" if one.cost_usd is None else f"${one.cost_usd:,.2f}"
    if one.seconds is None:
        time = "unknown, because no earlier sync has measured it"
    else:
        syncs = f"{one.measured:,} {'sync' if one.measured == 1 else 'syncs'}"
        time = f"{_hours(one.seconds / 3600)}, as long as the stages of {syncs} took for as much since {one.since:%Y-%m-%d}"
    say(f"    Cost: {cost}. Time: {time}.")
    if one.sampled is not None:
        say(f"    Passages are estimated from {one.sampled} documents.")


def _tell_budget(settings: Settings, used: float, cost: float) -> None:
    """Print that the month's budget does not suffice, if so."""
    limit = settings.embedding_budget
    if limit is not None and cost and used + cost > limit:
        note(
            f"This exceeds the rest of this month's budget of ${limit:.2f}. The work stops there and continues once it is raised."
        )


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"


def _progress() -> Any:
    last_step = 0

    def show(done: int, total: int) -> None:
        nonlocal last_step
        step = done * STEPS // max(1, total)
        if step > last_step:
            last_step = step
            note(f"{done} of {total} chunks embedded")

    return show


def _compare(work: Reindex, made: Target) -> ModelComparison:
    from orchestration.evaluation.comparison import compare

    verdict = compare(work.settings, work.connection, work.active(), made)
    kind = "titles" if verdict.from_titles else "questions"
    note(
        f"Compared with {verdict.questions} {kind}: recall@10 {verdict.active.recall:.3f} → {verdict.new.recall:.3f}, "
        f"MRR {verdict.active.mrr:.3f} → {verdict.new.mrr:.3f}"
    )
    return verdict


def _why(verdict: ModelComparison, settings: Settings) -> str:
    """Return why a comparison was not passed."""
    if verdict.leaks:
        people = ", ".join(f"{email} ({count})" for email, count in sorted(verdict.leaks.items()))
        return f"documents that must not be found were found, in questions asked as {people}"
    return f"it scores {verdict.loss:.3f} lower, more than {settings.reindex_max_loss:g} allows"


def _advise(settings: Settings, made: Target) -> None:
    """Print the settings to change, so that they name the model in use."""
    from resources.embedding import choice

    if choice(settings)[:2] != made.choice[:2]:
        lines = [f"CONCORDANCE_EMBEDDING_PROVIDER={made.choice.provider}"]
        lines += [f"CONCORDANCE_EMBEDDING_MODEL={made.choice.source}"] if made.choice.source else []
        note(f"Set this, so that searches find the model even while the database is unavailable: {' '.join(lines)}")


def _end(report: dict[str, Any], status: int, *, json: bool) -> int:
    if json:
        say_json(report)
    return status
