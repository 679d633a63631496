"""The routes of this room, module by module."""

from serving.compatibility import book, copilot

MODULES = (book, copilot)
