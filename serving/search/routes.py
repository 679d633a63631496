"""The routes of this room, module by module."""

from serving.search import citation_routes, health, page, rag, saved, searches, why

MODULES = (citation_routes, health, page, rag, saved, searches, why)
