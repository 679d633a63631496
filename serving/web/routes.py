"""The routes of this room, module by module."""

from serving.web import docs, static

MODULES = (docs, static)
