"""The socket on which the HTTP service listens, and why a service cannot."""

import errno
import socket

from resources.core.errors import ConfigurationError
from resources.servers.processes import port_fault
from resources.settings import Settings

ALL_FAMILIES = "::"
"""Listens for IPv4, too, where the machine can do both with one socket."""
BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the address of the HTTP interface. Raises `ConfigurationError`."""
    host, port = settings.http_host, settings.http_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        both = host == ALL_FAMILIES and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise refused(error, "serving", "CONCORDANCE_HTTP_PORT", host, port) from error


def check_port(name: str, setting: str, host: str, number: int) -> None:
    """Raise `ConfigurationError` if a service cannot listen on its port now."""
    fault = port_fault(number, host)
    if fault is not None:
        raise refused(fault, name, setting, host, number) from fault


def refused(error: OSError, name: str, setting: str, host: str, number: int) -> ConfigurationError:
    """Return why a service cannot listen, and what to do. `setting` is the variable of its port."""
    match error.errno:
        case errno.EADDRINUSE:
            what, remedy = (
                f"Port {number}, which {name} needs, is taken by another program.",
                f"Set {setting} to a free port.",
            )
        case errno.EACCES | errno.EPERM:
            what, remedy = (
                f"This account may not use port {number}, which {name} needs.",
                f"Set {setting} to 1024 or more.",
            )
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT | socket.EAI_NONAME:
            what, remedy = f"This machine has no address {host}.", "Set CONCORDANCE_HTTP__HOST to one that it has."
        case _:
            what, remedy = f"{name} cannot listen on port {number}: {error.strerror or error}.", ""
    return ConfigurationError(what, remedy)
