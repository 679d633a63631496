"""The command `eval`, which measures search quality in this process; no services are needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.output import note, say, say_json

if TYPE_CHECKING:
    from orchestration.evaluation.measures import Measures
    from orchestration.evaluation.quality import EvaluationReport

HEADER = f"{'':10}{'nDCG@10':>9}{'95 % interval':>18}{'Recall@10':>11}{'Recall@50':>11}{'MRR':>8}"
SIGNIFICANCE = 0.05


def eval(  # noqa: A001 # the name of the command
    folder: Annotated[
        Path,
        Parameter(help="A folder in BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv (or qrels/test.tsv)."),
    ],
    /,
    *,
    fusion: Annotated[
        Literal["weighted", "rrf", "dbsf", "minmax"] | None,
        Parameter(help="Fusion of the hybrid search; default: the setting FUSION."),
    ] = None,
    depth: Annotated[
        int | None, Parameter(help="Candidates taken from each engine; default: the setting SEARCH_DEPTH.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Another configuration to compare with, query by query: FUSION/DEPTH/DENSE_WEIGHT/AGREEMENT (rrf, rrf/100, "
            "weighted/50/0.6, weighted/50/0.7/0), vector or keyword. Can be repeated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the serving process, whose latency this estimates
    from orchestration.evaluation import quality
    from resources.logging import configure
    from resources.settings import load

    configure("warning")
    settings = load()
    hybrid = quality.configuration(settings, fusion or "", depth=depth)
    others = [quality.configuration(settings, text, depth=depth) for text in compare or ()]
    report = quality.evaluate(settings, folder, hybrid=hybrid, others=others, progress=note)
    if json:
        say_json(report)
    else:
        _show(report)


def _show(report: EvaluationReport) -> None:
    say(f"{report.collection}: {report.documents} documents, {report.queries} judged queries")
    say(HEADER)
    for name, measures in (("dense", report.dense), ("keyword", report.keyword), ("hybrid", report.hybrid)):
        say(_line(name, measures))
    say(f"hybrid search: p50 {report.latency_ms.p50:.1f} ms, p95 {report.latency_ms.p95:.1f} ms")
    for one in report.compare:
        result = one.result
        verdict = "significant" if result.p < SIGNIFICANCE else "not significant"
        say(
            f"{one.first} {one.first_ndcg_10:.4f} against {one.second} {one.second_ndcg_10:.4f}: {result.difference:+.4f} "
            f"[{result.ci95[0]:+.4f}, {result.ci95[1]:+.4f}], better on {result.better} and worse on {result.worse} queries, "
            f"p = {result.p:.4f}: {verdict}"
        )


def _line(name: str, measures: Measures) -> str:
    interval = f"{measures.ci95[0]:.4f}-{measures.ci95[1]:.4f}"
    return f"{name:10}{measures.ndcg_10:>9.4f}{interval:>18}{measures.recall_10:>11.4f}{measures.recall_50:>11.4f}{measures.mrr:>8.4f}"
