"""Agents that people connect: OAuth 2.1 on top of our browser sessions, for tokens that open `/mcp` only.

No routes and no tools: both are in `serving.routes`.
"""
