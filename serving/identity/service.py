"""Who is asking: directory, providers, sessions and revoked tokens."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from resources import dagster_access
from resources.sample_people import sample_people
from serving.identity.api_keys import key_event
from serving.identity.directory import Directory
from serving.identity.sign_in.emailed import EmailedLinks
from serving.identity.sign_in.flow import Flow
from serving.identity.sign_in.pages import Ways
from serving.identity.sign_in.provider import Provider
from serving.identity.sign_in.relying_party import RelyingParty, relying_party
from serving.identity.sign_in.sessions import EMAIL, LINK, PASSKEY, SAMPLE, Sessions
from serving.identity.withheld import WithheldReads
from serving.identity.withholding import Withholding, WithholdingKeeper
from sql.own_keys import OwnKeyRows

if TYPE_CHECKING:
    from resources.core.domain import Access
    from resources.settings import Settings
    from serving.http.service import HttpServices
    from serving.identity.sign_in.passkeys import Passkeys


MCP_PATH = "/mcp"
"""Path for agents, which speak the Model Context Protocol: tokens of agents open nothing else."""
ACCESS_PREFIX = "ca_"
"""Prefix of an agent's access token."""


class AgentAccess(NamedTuple):
    """The access of an agent's token, without what the directory adds."""

    access: Access
    sample: bool
    """True for a person of the sample company, whose groups no provider vouches for."""


class AgentTokens(Protocol):
    """The agents that people have connected."""

    async def access(self, token: str, now: datetime, grace: float) -> AgentAccess: ...

    async def end_all(self, email: str, provider: str, reason: str) -> None: ...


def sign_in_names(settings: Settings) -> list[str]:
    """Return the names of what people sign in with: providers, links, and what else is set up."""
    own = {
        LINK: True,
        EMAIL: bool(settings.sign_in_domains),
        PASSKEY: relying_party(settings) is not None,
        SAMPLE: bool(sample_people(settings)),
    }
    return [*(one.slug for one in settings.providers), *(name for name, on in own.items() if on)]


class IdentityServices:
    """Credentials, sessions and memberships of the people who use the service."""

    def __init__(self, http: HttpServices, agents: AgentTokens) -> None:
        settings = http.settings
        self.http = http
        self.agents = agents
        self.withheld = WithheldReads(http.qdrant)
        self.withholding = Withholding(settings)
        self.withholding_keeper = WithholdingKeeper(self.withholding, http.database, self.withheld)
        self.directory = Directory(settings, http.database, self.withheld)
        self.providers = {one.slug: Provider(one) for one in settings.providers}
        self.sample_people = sample_people(settings)
        self.dagster_secrets = dagster_access.secrets_of(settings)
        self.vouching = frozenset(sign_in_names(settings))
        """What people sign in with now: keys that were made in a session of another are refused."""
        self.sessions = Sessions(settings, http.database, http.audit, self.providers, self._end_allowed, self.vouching)
        self.sign_in_flow = Flow(settings, http.keys, http.database)
        self.emailed_links = EmailedLinks(http, self.directory)
        party = relying_party(settings)
        self.passkeys = None if party is None else _passkeys(http, party)
        self.ways = Ways(
            list(self.providers.values()),
            self.sample_people,
            email=self.emailed_links.offered,
            passkeys=party.origin if party else "",
        )
        """What `/sign-in` offers."""

    async def _end_allowed(self, email: str, provider: str, reason: str) -> None:
        """End the agents and keys that a person, by email, has allowed with a provider that no longer vouches for them."""
        await self.agents.end_all(email, provider, reason)
        now = self.http.clock()
        for key_id in await OwnKeyRows(self.http.database).revoke_vouched(email=email, provider=provider, now=now):
            await self.http.audit.record(key_event(email, "key_revoke", key_id, by="concordance", reason=reason))

    def start(self) -> None:
        """Start the background tasks."""
        self.withholding_keeper.start()
        self.emailed_links.start()

    async def close(self) -> None:
        await self.emailed_links.stop()
        await self.withholding_keeper.stop()
        for provider in self.providers.values():
            await provider.close()


def _passkeys(http: HttpServices, party: RelyingParty) -> Passkeys:
    """Return the passkeys of a site; the library is imported only where there are any."""
    from serving.identity.sign_in.passkeys import Passkeys

    return Passkeys(http.settings, party, http.keys, http.database)
