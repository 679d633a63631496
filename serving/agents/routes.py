"""The routes of this room, module by module."""

from serving.agents import connected, mcp, oauth

MODULES = (connected, mcp, oauth)
