"""Permission from `concordance up --sample` for the HTTP service to offer sign-in as the sample company's people.

The supervisor passes the file of these people in an environment variable; it removes the variable when it starts without the sample.
The service ignores it where real people could be affected: with a provider, a public URL, or a listener that others can reach.
"""

import os
from pathlib import Path

import msgspec

from resources.core.guard import LOOPBACK
from resources.settings import Settings

VARIABLE = "CONCORDANCE_SAMPLE_PEOPLE"


class SamplePerson(msgspec.Struct, frozen=True):
    """A person of the sample company."""

    id: str
    name: str
    role: str
    email: str
    groups: list[str]
    sees: str = ""
    """What this person finds and sees, in a sentence for the page that offers them."""
    administrator: bool = False
    """True if they have the role administrator when they sign in with a click."""


def sample_people(settings: Settings) -> tuple[SamplePerson, ...]:
    """Return the people whom anyone may sign in as; none unless this installation only tries out the sample company."""
    file = os.environ.get(VARIABLE)
    if not file or settings.oidc_providers is not None or settings.public_url is not None:
        return ()
    if settings.http_host not in LOOPBACK or settings.allowed_hosts:
        return ()
    return tuple(msgspec.json.decode(Path(file).read_bytes(), type=list[SamplePerson]))
