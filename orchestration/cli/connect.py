"""The command `connect`, which gets the URL of a provider's consent page from the running HTTP interface."""

from datetime import timedelta
from typing import Annotated

import httpx
from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.installed import remedy
from orchestration.cli.output import note, say, say_json
from orchestration.supervision.services import serving_address
from resources.core.errors import ConcordanceError, NotRunningError
from resources.settings import load
from serving.access.auth import mint

TOKEN_LIFE = timedelta(minutes=5)
PATIENCE_SECONDS = 30


def connect_google(
    *,
    as_: Annotated[
        str, Parameter(name="--as", help="Your email, recorded with the connection.")
    ] = "operator@localhost",
    json: Json = False,
) -> None:
    settings = load()
    address = serving_address(settings)
    headers = {
        "Authorization": f"Bearer {mint(settings, as_, admin=True, expires=TOKEN_LIFE)}",
        "Accept": "application/json",
    }
    try:
        response = httpx.get(f"{address}/api/auth/google", headers=headers, timeout=PATIENCE_SECONDS)
        answer = response.json()
    except (httpx.TransportError, ValueError) as error:
        raise NotRunningError(f"{address} is not responding ({error}). {remedy(settings)}") from error
    if not response.is_success:
        detail = answer.get("detail") or f"status {response.status_code}"
        raise ConcordanceError(f"Google cannot be connected: {detail}")
    if json:
        say_json(answer)
        return
    note("Open this URL in a browser and choose the account to read Drive with:")
    say(answer["url"])
