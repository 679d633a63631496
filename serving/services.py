"""The rooms of the service, built once per app."""

from collections.abc import Callable
from datetime import UTC, datetime

from litestar.datastructures import State
from litestar.di import Provide

from resources.logging import logger
from resources.public_web import PublicWeb
from resources.servers.shared import Shared
from resources.settings import Settings
from serving.account.service import AccountServices
from serving.agents.connections import Agents
from serving.agents.service import AgentServices
from serving.answers.model import language_model
from serving.answers.service import Answers
from serving.documents.service import DocumentServices
from serving.http.service import HttpServices
from serving.identity.service import IdentityServices, sign_in_names
from serving.search.embedding import EmbedsQueries
from serving.search.service import SearchServices
from serving.sources.service import Launcher, SourceServices
from serving.widget.visitors import Widgets

log = logger("serving")


class Services:
    """One object a room; a route receives that of its room by name."""

    def __init__(
        self,
        settings: Settings,
        *,
        launcher: Launcher | None = None,
        embedder: Callable[[], EmbedsQueries] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        shared: Shared | None = None,
        web: PublicWeb | None = None,
    ) -> None:
        """`shared` holds the limits of all processes of the service; without it, this is the only one. The others are for tests."""
        self.http = http = HttpServices(settings, clock, shared or Shared.alone())
        model = language_model(settings, http.shared, http.database, http.metrics.asked_model)
        connections = Agents(settings, http.keys, http.database, http.audit, sign_in_names(settings))
        self.identity = IdentityServices(http, connections)
        self.search = SearchServices(http, self.identity, embedder, model)
        self.answers = Answers(self.search, model)
        self.source_services = SourceServices(
            http, self.identity, launcher
        )  # `sources` is a parameter of several routes
        self.documents = DocumentServices(http, self.identity, self.search, self.source_services)
        self.agents = AgentServices(connections, self.answers, self.documents, web)
        self.widgets = Widgets(self.answers)
        self.account = AccountServices(self.identity, self.answers, self.agents)

    async def open(self) -> None:
        """Connect and warm up, then start the background tasks.

        A dependency that is down does not keep the app from starting.
        """
        await self.http.database.open()
        await self.search.open()
        self.http.start()
        self.identity.start()
        log.info("serving_started", embedder=self.search.embedder.model or None)

    async def close(self) -> None:
        """Write what is queued, then close every connection."""
        await self.source_services.sync_requests.stop()
        await self.answers.close()
        await self.identity.close()
        await self.search.close()
        await self.http.close()


def _provider(room: str) -> Provide:
    def provide(state: State) -> object:
        return getattr(state.services, room)

    return Provide(provide, sync_to_thread=False)


PROVIDED = {
    room: _provider(room)
    for room in (
        "http",
        "identity",
        "search",
        "answers",
        "source_services",
        "documents",
        "agents",
        "widgets",
        "account",
    )
}
"""What routes receive, by the name of their parameter."""
