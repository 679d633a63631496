"""The commands `search`, `saved` and `ask`, which call the running HTTP interface as a user, with a short-lived token."""

import shlex
from typing import Annotated, Any, Literal, cast

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from orchestration.cli.arguments import Groups, Json, person
from orchestration.cli.output import note, note_changed, program, say, say_json
from orchestration.client import Client
from resources.core.errors import InvalidRequestError
from resources.settings import load


def search(
    query: Annotated[str, Parameter(help="What to look for.")],
    /,
    *,
    as_: Annotated[
        str | None,
        Parameter(name="--as", help="Email of the person to search as; only documents that they may read are found."),
    ] = None,
    group: Groups = None,
    top_k: Annotated[int, Parameter(help="How many documents, at most 50.", validator=Number(gte=1, lte=50))] = 5,
    mode: Annotated[Literal["hybrid", "vector", "keyword"], Parameter(help="Which index to search.")] = "hybrid",
    explain: Annotated[bool, Parameter(negative="", help="Show how each result was ranked.")] = False,
    json: Json = False,
) -> None:
    who = person(as_, f"{program()} search {shlex.quote(query)} --as ann@example.com")
    settings = load()
    note_changed(settings)
    with Client(settings, who, group or []) as client:
        found = client.search(query, top_k, mode=mode, explain=explain)
    if json:
        say_json(found)
    else:
        _say_results(found, who)


def saved(
    name: Annotated[str | None, Parameter(help="The saved search to run. By default, all are listed.")] = None,
    /,
    *,
    as_: Annotated[str | None, Parameter(name="--as", help="Email of the person who saved it, to search as.")] = None,
    group: Groups = None,
    top_k: Annotated[int, Parameter(help="How many documents, at most 50.", validator=Number(gte=1, lte=50))] = 5,
    json: Json = False,
) -> None:
    who = person(as_, f"{program()} saved --as ann@example.com")
    settings = load()
    note_changed(settings)
    with Client(settings, who, group or []) as client:
        kept = client.body("GET", "/api/saved-searches")["searches"]
        wanted = next((one for one in kept if one["name"] == name), None)
        if name is not None and wanted is None:
            raise InvalidRequestError(f"{who} has no saved search named {name!r}. See: {program()} saved --as {who}")
        found = client.search(wanted["query"], top_k, filters=wanted["filters"]) if wanted else None
    if json:
        say_json(found or kept)
    elif found:
        _say_results(found, who)
    else:
        for one in kept:
            filters = [msgspec.json.encode(one["filters"]).decode()] if one["filters"] else []
            say("  ".join([one["name"], one["query"], *filters]))
        if not kept:
            note(f"{who} has saved no search. The search page has a button for that.")


def _say_results(found: dict[str, Any], who: str) -> None:
    for warning in found.get("warnings", []):
        note(f"Warning: {warning['message']}")
    for one in found["understood"]:
        effect = "applied" if one["applied"] else "not applied, since nothing would be left"
        note(f"Filter in the question: {one['text']} ({effect})")
    for result in found["results"]:
        say(shown(result))
    if not found["results"]:
        note(f"Nothing that {who} may read is about this.")
    elif all(result.get("weak") for result in found["results"]):
        note(f"All results are weak: what {who} may read is hardly about this.")


def ask(
    question: Annotated[str, Parameter(help="The question.")],
    /,
    *,
    as_: Annotated[
        str | None,
        Parameter(
            name="--as", help="Email of the person to ask as; the answer comes from documents that they may read."
        ),
    ] = None,
    group: Groups = None,
    show_prompt: Annotated[
        bool,
        Parameter(negative="", help="Also print what the language model is sent, or would be sent if there is none."),
    ] = False,
    json: Json = False,
) -> None:
    who = person(as_, f"{program()} ask {shlex.quote(question)} --as ann@example.com")
    settings = load()
    note_changed(settings)
    with Client(settings, who, group or []) as client:
        answer = client.ask(question, show_prompt=show_prompt)
    if json:
        say_json(answer)
        return
    for message in answer.get("prompt", []):
        say(f"--- {message['role']} ---\n{message['content']}")
    if answer.get("prompt"):
        say("--- answer ---")
    for warning in answer["warnings"]:
        note(f"Warning: {warning['message']}")
    say(answer["answer"])
    if unanswered := answer.get("unanswered"):
        say(unanswered["message"])
        for one in unanswered["closest"]:
            say(f"Close: {one['title']}\n   {one['link']}")
    for number in answer["cited"]:
        citation = answer["sources"][number - 1]["citation"]
        say(f"{citation['text']}\n   {citation['link']}")
    if settings.llm_model is None and answer["found"]:
        note("Quoted, since no language model is set (CONCORDANCE_LLM_MODEL).")


def shown(result: dict[str, Any]) -> str:
    """Return a result as lines: citation with score, link, snippet and explanation."""
    citation = result["citation"]
    score = f"score {result['relevance_score']:.2f}{', weak' if result.get('weak') else ''}"
    lines = [f"{citation['index']}. {citation['text']}  ({score})", f"   {citation['link']}"]
    lines += [f"   {line}" for line in " ".join(str(result["snippet"]).split("\n")).splitlines()]
    if explanation := result.get("explain"):
        lines.append(f"   [{_figures(explanation)}]")
    return "\n".join(lines)


def _figures(explanation: dict[str, Any]) -> str:
    texts: list[str] = []
    for name, value in explanation.items():
        if isinstance(value, dict):
            texts.append(f"{name} ({_figures(cast('dict[str, Any]', value))})")
        elif value is not None:
            texts.append(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(texts)
