"""The command `eval`, which measures search quality in this process; no services are needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.output import note, say, say_json

if TYPE_CHECKING:
    from orchestration.evaluation.measures import Measures
    from orchestration.evaluation.report import Compared, EvaluationReport, Third

HEADER = f"{'':10}{'nDCG@10':>9}{'95 % interval':>18}{'Recall@10':>11}{'Recall@50':>11}{'MRR':>8}"
SIGNIFICANCE = 0.05


def eval(  # noqa: A001 # the name of the command
    folder: Annotated[
        Path,
        Parameter(help="A folder in BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv (or qrels/test.tsv)."),
    ],
    /,
    *more: Annotated[Path, Parameter(help="Further folders; comparisons then also cover the queries of all of them.")],
    fusion: Annotated[
        Literal["weighted", "rrf", "dbsf", "minmax"] | None,
        Parameter(help="Fusion of the hybrid search; without it, that of searches: weighted."),
    ] = None,
    depth: Annotated[
        int | None, Parameter(help="Candidates taken from each engine; without it, as many as searches take: 50.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Another configuration to compare with, query by query: FUSION/DEPTH/DENSE_WEIGHT/AGREEMENT (rrf, rrf/100, "
            "weighted/50/0.6, weighted/50/0.7/0), vector or keyword; or an earlier evaluation: a file ending in .json with the output of "
            "--json. Can be repeated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the serving process, whose latency this estimates
    from orchestration.evaluation import quality, report
    from resources.core.errors import InvalidRequestError
    from resources.settings import load

    settings = load()
    folders = (folder, *more)
    names = {one.resolve().name for one in folders}
    if len(names) < len(folders):
        raise InvalidRequestError("Two folders have the same name, which is the name of their collection: rename one.")
    hybrid = quality.configuration(settings, fusion or "", depth=depth)
    earlier = [report.read_earlier(Path(text), names) for text in compare or () if _saved(text)]
    others = [quality.configuration(settings, text, depth=depth) for text in compare or () if not _saved(text)]
    reports = [
        report.with_earlier(
            quality.evaluate(settings, one, hybrid=hybrid, others=others, progress=note), hybrid.label, earlier
        )
        for one in folders
    ]
    whole = report.together(reports, hybrid.label, [one.label for one in others], earlier) if more else None
    if json:
        say_json(whole or reports[0])
        return
    for one in reports:
        _show(one)
    if whole and whole.compare:
        say(f"all {sum(one.queries for one in reports)} queries")
        _show_compared(whole.compare)


def _saved(text: str) -> bool:
    return text.endswith(".json")


def _show(report: EvaluationReport) -> None:
    say(f"{report.collection}: {report.documents} documents, {report.queries} judged queries")
    say(HEADER)
    _show_modes(report)
    for name, third in (("shortest", report.shortest_queries), ("longest", report.longest_queries)):
        if third is not None:
            say(f"{name} third, {third.queries} queries of {third.words[0]} to {third.words[1]} words")
            _show_modes(third)
    say(f"hybrid search: p50 {report.latency_ms.p50:.1f} ms, p95 {report.latency_ms.p95:.1f} ms")
    _show_compared(report.compare)


def _show_modes(measured: EvaluationReport | Third) -> None:
    for name, measures in (("dense", measured.dense), ("keyword", measured.keyword), ("hybrid", measured.hybrid)):
        say(_line(name, measures))


def _show_compared(compared: Sequence[Compared]) -> None:
    for one in compared:
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
