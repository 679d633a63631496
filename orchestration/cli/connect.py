"""The command `connect`, which gets the URL of a provider's consent page from the running HTTP interface."""

from typing import Annotated

from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.output import note, say, say_json
from orchestration.client import Client
from resources.settings import load


def connect_google(
    *,
    as_: Annotated[
        str, Parameter(name="--as", help="Your email, recorded with the connection.")
    ] = "operator@localhost",
    json: Json = False,
) -> None:
    with Client(load(), as_, admin=True) as client:
        answer = client.body("GET", "/api/auth/google")
    if json:
        say_json(answer)
        return
    note("Open this URL in a browser and choose the account to read Drive with:")
    say(answer["url"])
