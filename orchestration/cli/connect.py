"""The commands `connect`: add an account by a provider's consent page, list the accounts, and remove one."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.installed import database
from orchestration.cli.output import confirmed, note, say, say_json
from orchestration.client import Client
from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.settings import load
from resources.stores import credentials
from sql.scim import Offboarding


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


def connect_list(*, json: Json = False) -> None:
    with database(load()) as connection:
        found = credentials.accounts(connection, credentials.GOOGLE)
    if json:
        say_json(msgspec.to_builtins(found))
        return
    for one in found:
        say(f"google  {one.account:<32} connected {one.connected_at:%Y-%m-%d %H:%M} UTC by {one.updated_by}")
    if not found:
        note("No account is connected. To connect one: concordance connect google")


def connect_remove(
    email: Annotated[str, Parameter(help="A connected account.")],
    /,
    *,
    as_: Annotated[str, Parameter(name="--as", help="Your email, for the audit log.")] = "operator@localhost",
    yes: Annotated[bool, Parameter(negative="", help="Do not ask.")] = False,
) -> int:
    account, by = permissions.email(email), permissions.email(as_)
    with database(load()) as connection:
        if account not in {one.account for one in credentials.accounts(connection, credentials.GOOGLE)}:
            raise InvalidRequestError(f"{account} is not connected. See: concordance connect list")
        if not (yes or confirmed(f"Stop reading Google Drive with {account}? [y/N] ")):
            note("Nothing was removed. To remove it without a question, add --yes")
            return 1
        with connection.transaction():
            credentials.remove(connection, credentials.GOOGLE, account)
            detail = {"provider": credentials.GOOGLE, "account": account}
            Offboarding(connection).record(email=by, action="disconnect", detail=detail)
    say(f"Disconnected {account} from Google Drive.")
    note("Documents of its My Drive are kept until you decide: concordance source list")
    note("The permission itself ends at https://myaccount.google.com/permissions")
    return 0
