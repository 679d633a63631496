"""The socket on which the HTTP service listens."""

import socket

from resources.core.errors import ConfigurationError
from resources.settings import Settings

ALL_FAMILIES = "::"
"""Listens for IPv4, too, where the machine can do both with one socket."""
BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the address of the HTTP interface. Raises `ConfigurationError` if the port is taken."""
    host, port = settings.http_host, settings.http_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        both = host == ALL_FAMILIES and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigurationError(port_taken("serving", "CONCORDANCE_HTTP_PORT", port)) from error


def port_taken(name: str, setting: str, number: int) -> str:
    """Return the message for a port that another program uses."""
    return f"Port {number}, which {name} needs, is taken by another program. Set {setting} to a free port."
