"""The pages of an answer, `/answers/{answer_id}`, and of one's own questions, `/history`."""

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.params import FromPath

from serving.answers.asking import kept_answer
from serving.answers.history import questions_of
from serving.answers.service import Answers
from serving.identity.authentication import SessionFrom
from serving.identity.people import names_of_people
from serving.identity.visitor import page_route, signed_in
from serving.search.retrieval.query import MAX_QUERY
from serving.web.render import view

PAGE_SIZE = 50


@page_route("/answers/{answer_id:str}", "viewAnswer", "open", SessionFrom.LINK)
async def view_answer(
    request: Request[Any, Any, Any], answers: NamedDependency[Answers], answer_id: FromPath[str]
) -> Response[str]:
    """Show an answer of the visitor's, or one that was shared, if the visitor may read all of its sources."""
    access = await signed_in(request, answers.identity)
    answer = await kept_answer(answers, access, answer_id)
    return view(
        "answer.html",
        access,
        script="kept.js",
        answer=answer,
        people=await names_of_people(answers.identity, access, [answer.asked_by]),
        cited=sum(one.cited for one in answer.sources),
        missing=sum(one.cited and one.status == "revoked" for one in answer.sources),
        data=msgspec.to_builtins(answer),
        base=answers.http.settings.base_url,
    )


@page_route("/history", "history", "open", SessionFrom.LINK)
async def history(request: Request[Any, Any, Any], answers: NamedDependency[Answers]) -> Response[str]:
    """Show the visitor's own questions, newest first, or those that contain the words that were searched for."""
    access = await signed_in(request, answers.identity)
    words = " ".join(request.query_params.get("q", "").replace("\x00", " ").split())[:MAX_QUERY]
    page = await questions_of(answers, access, PAGE_SIZE, request.query_params.get("cursor"), words)
    return view("history.html", access, script="entries.js", here="/history", page=page, words=words)
