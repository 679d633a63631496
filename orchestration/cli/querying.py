"""The command `search`, which queries the running HTTP interface as a user, with a short-lived token."""

from typing import Annotated, Any, Literal, cast

from cyclopts import Parameter

from orchestration.cli.arguments import Groups, Json
from orchestration.cli.output import note, note_changed, say, say_json
from orchestration.client import Client
from resources.settings import load


def search(
    query: Annotated[str, Parameter(help="What to look for.")],
    /,
    *,
    as_: Annotated[
        str,
        Parameter(name="--as", help="Email of the person to search as; only documents that they may read are found."),
    ],
    group: Groups = None,
    top_k: Annotated[int, Parameter(help="How many documents, at most 50.")] = 5,
    mode: Annotated[Literal["hybrid", "vector", "keyword"], Parameter(help="Which index to search.")] = "hybrid",
    explain: Annotated[bool, Parameter(negative="", help="Show how each result was ranked.")] = False,
    json: Json = False,
) -> None:
    settings = load()
    note_changed(settings)
    with Client(settings, as_, group or []) as client:
        found = client.search(query, top_k, mode=mode, explain=explain)
    if json:
        say_json(found)
        return
    for warning in found.get("warnings", []):
        note(f"Warning: {warning['message']}")
    for one in found["understood"]:
        effect = "applied" if one["applied"] else "not applied, since nothing would be left"
        note(f"Filter in the question: {one['text']} ({effect})")
    for result in found["results"]:
        say(_shown(result))
    if not found["results"]:
        note(f"Nothing that {as_} may read is about this.")


def _shown(result: dict[str, Any]) -> str:
    citation = result["citation"]
    lines = [f"{citation['index']}. {citation['text']}  ({result['relevance_score']:.2f})", f"   {citation['link']}"]
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
