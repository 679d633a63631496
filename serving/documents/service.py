"""What reading, listing, receiving and erasing documents need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.http.service import HttpServices
    from serving.identity.service import IdentityServices
    from serving.search.service import SearchServices
    from serving.sources.service import SourceServices


class DocumentServices:
    """Documents as their readers and owners see them. What is received is indexed by a sync."""

    def __init__(
        self, http: HttpServices, identity: IdentityServices, search: SearchServices, sources: SourceServices
    ) -> None:
        self.http = http
        self.identity = identity
        self.search = search
        self.sources = sources
