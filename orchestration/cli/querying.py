"""The command `search`, which queries the running HTTP interface as a user, with a short-lived token."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import httpx
from cyclopts import Parameter

from orchestration.cli.arguments import Groups, Json
from orchestration.cli.installed import remedy
from orchestration.cli.output import note, say, say_json
from orchestration.supervision.services import serving_address
from resources.core.errors import ConcordanceError, InvalidRequestError, NotRunningError
from resources.settings import Settings, load
from serving.access.auth import mint

TOKEN_LIFE = timedelta(minutes=5)
PATIENCE_SECONDS = 60


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
    body = {"query": query, "top_k": top_k, "mode": mode, "explain": explain}
    found = ask(settings, as_, group or [], body)
    if json:
        say_json(found)
        return
    for warning in found.get("warnings", []):
        note(f"Warning: {warning['message']}")
    for result in found["results"]:
        say(_shown(result))
    if not found["results"]:
        note(f"No results that {as_} may read.")


def ask(settings: Settings, email: str, groups: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """Return the response of `POST /api/rag/search`. Raises `NotRunningError`, or `ConcordanceError` with the server's message."""
    address = serving_address(settings)
    token = mint(settings, email, groups, expires=TOKEN_LIFE)
    try:
        response = httpx.post(
            f"{address}/api/rag/search",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_SECONDS,
        )
    except httpx.TransportError as error:
        raise NotRunningError(f"{address} is not responding ({error}). {remedy(settings)}") from error
    if response.is_success:
        return response.json()
    message = f"The search failed: {_problem(response)}"
    raise InvalidRequestError(message) if response.status_code in (400, 422) else ConcordanceError(message)


def _problem(response: Any) -> str:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    return str(problem.get("detail") or problem.get("title") or f"status {response.status_code}")


def _shown(result: dict[str, Any]) -> str:
    citation = result["citation"]
    lines = [f"{citation['index']}. {citation['text']}", f"   {citation['link']}"]
    lines += [f"   {line}" for line in " ".join(str(result["snippet"]).split("\n")).splitlines()]
    if explanation := result.get("explain"):
        parts = [f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
                 for name, value in explanation.items() if value not in (None, {})]  # fmt: skip
        lines.append(f"   [{', '.join(parts)}]")
    return "\n".join(lines)
