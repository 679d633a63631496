"""The routes of this room, module by module."""

from serving.http import audit_log

MODULES = (audit_log,)
