"""The monthly relevance evaluation in Dagster: an asset, its two checks and its schedule.

A leak fails its check with severity error, recall below the floor with severity warning. Both send an alert.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import catalog
from orchestration.dagster_api import define_asset_job
from orchestration.jobs import at_fixed_times
from resources.alerts import alert
from resources.bindings import as_failure
from resources.core.domain import STAGES
from resources.settings import load
from resources.sources import names
from resources.stores.postgres import session

if TYPE_CHECKING:
    from orchestration.evaluation.relevance import QuestionFault, RelevanceMetrics, RelevanceReport

CRON = "0 4 1 * *"
DEADLINE = "0 12 1 * *"
"""The first of each month, before working hours, and when it should be done."""
NO_LEAKS, ABOVE_FLOOR = "no_leaks", "recall_above_floor"
MEASURES = ("recall@5", "recall@10", "ndcg@10", "mrr")
HOW_TO_SEE = "See: concordance questions run"


@dg.asset(
    name="relevance_evaluation",
    group_name="upkeep",
    deps=[dg.AssetKey([source.value, STAGES[-1]]) for source in names()],
    check_specs=[
        dg.AssetCheckSpec(
            NO_LEAKS,
            asset="relevance_evaluation",
            description="No user finds a document that they must never find or may not read.",
            metadata=catalog.DOCUMENTATION,
        ),
        dg.AssetCheckSpec(
            ABOVE_FLOOR,
            asset="relevance_evaluation",
            description="Recall@10 on the question set is not below CONCORDANCE_LIMITS__EVALUATION_FLOOR.",
            metadata=catalog.DOCUMENTATION,
        ),
    ],
    owners=catalog.OWNERS,
    tags=catalog.purpose("evaluation"),
    kinds={"postgres", "qdrant"},
    freshness_policy=dg.FreshnessPolicy.cron(deadline_cron=DEADLINE, lower_bound_delta=timedelta(hours=8)),
    description="Recall and leaks of the company's question set, each question asked as its user; one row per run and question.",
)
def relevance_evaluation() -> dg.MaterializeResult:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType] (Dagster refuses one)
    """Evaluate, send alerts and attach the figures."""
    from orchestration.evaluation.relevance import (
        evaluate,  # loads the retriever, which only the run's own process needs
    )

    settings = load()
    with as_failure(), session(settings.postgres_dsn) as connection:
        report = evaluate(settings, connection)
    whole = report.figures
    if whole.leaks:
        alert(settings, f"Search leaks: {whole.leaks} questions found documents that they must not. {HOW_TO_SEE}")
    if not report.above_floor:
        alert(
            settings,
            f"Search quality is low: recall@10 is {whole.recall_10:.3f} on {whole.questions} questions, below the floor of "
            f"{report.floor:g}. {HOW_TO_SEE}",
        )
    return dg.MaterializeResult(
        metadata=metadata(report),
        check_results=[
            dg.AssetCheckResult(
                check_name=NO_LEAKS,
                passed=not whole.leaks,
                severity=dg.AssetCheckSeverity.ERROR,
                metadata={"leaks": whole.leaks, "never": whole.never},
            ),
            dg.AssetCheckResult(
                check_name=ABOVE_FLOOR,
                passed=report.above_floor,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"floor": report.floor, **_numbers(whole)},
            ),
        ],
    )


_PURPOSE = "Run the question set against the index and measure recall and permission leaks."
monthly_evaluation = define_asset_job(
    name="monthly_evaluation",
    selection=dg.AssetSelection.assets(relevance_evaluation),
    executor_def=dg.in_process_executor,
    description=_PURPOSE,
    tags=catalog.purpose("evaluation"),
    owners=catalog.OWNERS,
)
monthly_evaluation_schedule = at_fixed_times(monthly_evaluation, CRON, _PURPOSE, "evaluation")


def metadata(report: "RelevanceReport") -> dict[str, Any]:
    """Return the figures that Dagster plots over time, and tables of users, leaks and missed documents."""
    if report.evaluation_id is None:
        return {"questions": 0, "note": "There are no questions yet. Add one with: concordance questions add"}
    people = [
        {"as": email, "never": one.never, "leaks": one.leaks, **dict.fromkeys(MEASURES, ""), **_numbers(one)}
        for email, one in report.personas.items()
    ]
    found: dict[str, Any] = {
        **_numbers(report.figures),
        "never": report.figures.never,
        "leaks": report.figures.leaks,
        "answers_with_documents_held_back": report.held_back,
        "model": report.model,
        "personas": _table(people),
    }
    for name, findings in (("leaked", report.leaks), ("missed", report.missed)):
        if findings:
            found[name] = _table([_row(finding) for finding in findings])
    return found


def _numbers(figures: "RelevanceMetrics") -> dict[str, Any]:
    measures = zip(MEASURES, (figures.recall_5, figures.recall_10, figures.ndcg_10, figures.mrr), strict=True)
    return {"questions": figures.questions} | {name: value for name, value in measures if value is not None}


def _row(finding: "QuestionFault") -> dict[str, Any]:
    """Describe a finding without its question and the names of its documents, which are for curators."""
    return {
        "id": finding.id,
        "as": finding.email,
        "documents": len(finding.documents),
        "reason": finding.reason,
    }


def _table(rows: list[dict[str, Any]]) -> dg.TableMetadataValue:
    records = [dg.TableRecord(row) for row in rows]
    return dg.TableMetadataValue(records=records, schema=dg.TableSchema([dg.TableColumn(name) for name in rows[0]]))
