"""What agents need: their connections, and the search, answers and documents that their tools give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from serving.agents.client_documents import ClientDocuments

if TYPE_CHECKING:
    from resources.public_web import PublicWeb
    from serving.agents.connections import Agents
    from serving.answers.service import Answers
    from serving.documents.service import DocumentServices
    from serving.http.service import HttpServices
    from serving.identity.service import IdentityServices
    from serving.search.service import SearchServices


class AgentServices:
    """Programs that people have connected, and what they can do."""

    def __init__(
        self, connections: Agents, answers: Answers, documents: DocumentServices, web: PublicWeb | None = None
    ) -> None:
        """`web` replaces the web of clients' documents, for tests."""
        self.connections = connections
        self.client_documents = ClientDocuments(web)
        self.answers = answers
        self.documents = documents
        self.http: HttpServices = answers.http
        self.identity: IdentityServices = answers.identity
        self.search: SearchServices = answers.search
