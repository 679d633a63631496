"""The commands `questions`, which manage the question set and run it, directly on the database and the index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orchestration.cli.arguments import Groups, Json, operator
from orchestration.cli.installed import database
from orchestration.cli.output import note, say, say_json
from orchestration.evaluation.question_set import QuestionLine, StoredQuestion, put, read, resolve, stored
from resources.core.errors import InvalidRequestError
from resources.settings import load
from sql.questions import Questions

if TYPE_CHECKING:
    from orchestration.evaluation.relevance import RelevanceMetrics, RelevanceReport

HEADER = f"{'':32}{'questions':>10}{'recall@5':>10}{'recall@10':>11}{'nDCG@10':>9}{'MRR':>7}{'never':>7}{'leaks':>7}"
Id = Annotated[int, Parameter(help="The ids that `questions list` shows.")]
QuestionFile = Annotated[
    Path,
    Parameter(
        help='JSON list of {"question", "documents": [link or source id], "as": email}; "groups" and "never" are optional.'
    ),
]
HOW_TO_ADD = "Add one with: concordance questions add QUESTION --document LINK --as EMAIL"


def questions_add(
    question: Annotated[str, Parameter(help="The question as a person would ask it.")],
    /,
    *,
    document: Annotated[
        list[str], Parameter(negative="", help="Source id or link of a document that answers it. Can be repeated.")
    ],
    as_: Annotated[str, Parameter(name="--as", help="Email of the person to ask it as.")],
    group: Groups = None,
    never: Annotated[bool, Parameter(negative="", help="This person must never find these documents.")] = False,
    json: Json = False,
) -> None:
    line = QuestionLine(question=question, documents=document, email=as_, groups=group or [], never=never)
    _put([line], json=json)


def questions_import(file: QuestionFile, /, *, json: Json = False) -> None:
    _put(read(file), json=json)


def _put(lines: list[QuestionLine], *, json: bool) -> None:

    with database(load()) as connection:
        ids = put(connection, resolve(connection, lines), operator())
    if json:
        say_json({"ids": ids})
    else:
        say(f"{'Question' if len(ids) == 1 else 'Questions'} {', '.join(map(str, ids))}.")


def questions_list(*, json: Json = False) -> None:
    with database(load()) as connection:
        found = stored(connection)
    if json:
        say_json(found)
        return
    for one in found:
        say(_line(one))
    if not found:
        note(f"There are no questions. {HOW_TO_ADD}")


def questions_accept(*ids: Id, json: Json = False) -> int:
    return _change("accept", Questions.accept, ids, "Accepted", json=json)


def questions_remove(*ids: Id, json: Json = False) -> int:
    return _change("remove", Questions.remove, ids, "Removed", json=json)


def _change(name: str, change: Callable[..., list[int]], ids: tuple[int, ...], done: str, *, json: bool) -> int:

    if not ids:
        raise InvalidRequestError("Give the id of at least one question. See: concordance questions list")
    with database(load()) as connection:
        found = sorted(change(Questions(connection), ids=list(ids)))
    if json:
        say_json({"ids": found})
    elif found:
        say(f"{done} {', '.join(map(str, found))}.")
    if left := sorted(set(ids) - set(found)):
        note(f"Nothing to {name}: {', '.join(map(str, left))}. See: concordance questions list")
    return 1 if left else 0


def questions_run(*, json: Json = False) -> int:
    from orchestration.evaluation.relevance import evaluate

    settings = load()
    with database(settings) as connection:
        report = evaluate(settings, connection)
    if json:
        say_json(report)
    else:
        _show(report)
    return 0 if report.passed else 1


def _line(one: StoredQuestion) -> str:
    what = "must never find" if one.never else "finds"
    names = ", ".join(document.name for document in one.documents)
    state = f"  proposed: concordance questions accept {one.id}" if one.state == "proposed" else ""
    return f"{one.id}  {one.email}  {one.question!r} {what} {names}{state}"


def _show(report: RelevanceReport) -> None:
    if report.evaluation_id is None:
        note(f"There are no questions, so there is nothing to measure. {HOW_TO_ADD}")
        return
    say(HEADER)
    for email, one in report.personas.items():
        say(_row(email, one))
    say(_row("all", report.figures))
    if report.previous is not None:
        say(_row(f"before, {report.previous.at:%Y-%m-%d %H:%M}", report.previous.figures))
    for word, findings in (("LEAK", report.leaks), ("missed", report.missed)):
        for one in findings:
            say(f"{word}  {one.id}  {one.email}  {one.question!r}: {', '.join(one.documents)} {one.reason}")
    if report.held_back:
        note(
            f"{report.held_back} results omit documents whose permissions were last checked too long ago. Sync their sources."
        )
    if not report.above_floor:
        note(f"Recall@10 is below {report.floor:g}.")


def _row(name: str, one: RelevanceMetrics) -> str:
    measures = (one.recall_5, one.recall_10, one.ndcg_10, one.mrr)
    shown = ["-" if value is None else f"{value:.3f}" for value in measures]
    widths = zip(shown, (10, 11, 9, 7), strict=True)
    return f"{name[:31]:32}{one.questions:>10}{''.join(f'{text:>{width}}' for text, width in widths)}{one.never:>7}{one.leaks:>7}"
