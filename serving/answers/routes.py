"""The routes of this room, module by module."""

from serving.answers import asking, history, not_useful, pages, question_set

MODULES = (asking, history, not_useful, pages, question_set)
