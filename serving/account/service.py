"""What a person's own page and the administrators' pages show of the other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.agents.service import AgentServices
    from serving.answers.service import Answers
    from serving.http.service import HttpServices
    from serving.identity.service import IdentityServices


class AccountServices:
    """One's own account, and all accounts for administrators."""

    def __init__(self, identity: IdentityServices, answers: Answers, agents: AgentServices) -> None:
        self.http: HttpServices = identity.http
        self.identity = identity
        self.answers = answers
        self.agents = agents
