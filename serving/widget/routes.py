"""The routes of this room, module by module."""

from serving.widget import asking

MODULES = (asking,)
