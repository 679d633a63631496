"""Client addresses as limits per address count them."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def origin(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or an IPv6 /64 network, which is what one customer gets."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Origins:
    """Maps client addresses to the key of per-address limits. `trusted` lists reverse proxies and networks."""

    def __init__(self, trusted: Collection[str]) -> None:
        self._trusted = [ipaddress.ip_network(one, strict=False) for one in trusted]

    def of(self, host: str) -> str:
        """Return the key of an address; empty for a trusted proxy, which serves many users, and for a Unix socket."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return ""
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return "" if any(address in network for network in self._trusted) else origin(host)
