"""Which requests go through a proxy: what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say, in either case.

Libraries read these variables in different ways: httpx and urllib know no networks in NO_PROXY, slack_sdk ignores NO_PROXY, and all
of them send requests for this machine to the proxy. So every HTTP client of ours is made in `resources.http_clients`, which asks here.
"""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from resources.core.errors import ConfigurationError

NO_PROXY = ("no_proxy", "NO_PROXY")
THIS_MACHINE = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
"""Added to NO_PROXY for libraries that read it themselves, some of which know no networks."""
_SCHEMES = {"ws": "http", "wss": "https"}


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy for a request, or None for a direct connection, as always to loopback addresses.

    Raises `ConfigurationError` for a proxy that cannot be used.
    """
    parts = urlsplit(url)
    scheme, host = _SCHEMES.get(parts.scheme, parts.scheme), (parts.hostname or "").rstrip(".")
    found = getproxies_environment()
    name = scheme if found.get(scheme) else "all"
    proxy = found.get(name)
    if not proxy or _is_loopback(host) or _is_exempt(host, parts.port or _default_port(scheme), found.get("no", "")):
        return None
    return checked(f"{name.upper()}_PROXY", proxy)


def checked(variable: str, proxy: str) -> str:
    """Return the URL of a proxy. Raises `ConfigurationError`, without the URL, which may contain a password."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            "must name an HTTP proxy, such as http://proxy.example.com:3128.",
            "SOCKS proxies are not supported.",
            setting=variable,
        )
    return url


def named() -> dict[str, str]:
    """Return the proxies of the environment by the variable that names them, for requests by HTTP and HTTPS."""
    found = getproxies_environment()
    names = {scheme if found.get(scheme) else "all" for scheme in ("http", "https")}
    return {f"{name.upper()}_PROXY": found[name] for name in sorted(names) if found.get(name)}


def exempt_this_machine() -> None:
    """Add loopback addresses to NO_PROXY in this process's environment and those of its children.

    Object stores are read by libraries that read the variables themselves.
    """
    if named():
        entries = [*_entries(getproxies_environment().get("no", "")), *THIS_MACHINE]
        os.environ |= dict.fromkeys(NO_PROXY, ",".join(dict.fromkeys(entries)))


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Return True if an entry names the host: `*`, a name with its subdomains, an address or a network; each with a port or without."""
    address = _address(host)
    return any(_matches(entry.lower(), host, address, port) for entry in _entries(no_proxy))


def _matches(
    entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None
) -> bool:
    if entry == "*":
        return True
    with_port = re.fullmatch(r"(\[[^\]]+\]|[^:]+):(\d+)", entry)
    if with_port and int(with_port[2]) != port:
        return False
    name = (with_port[1] if with_port else entry).strip("[]")
    if address is not None:
        try:
            return address in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False
    name = name.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _entries(no_proxy: str) -> list[str]:
    return [entry for entry in re.split(r"[,\s]+", no_proxy) if entry]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _default_port(scheme: str) -> int | None:
    return {"http": 80, "https": 443}.get(scheme)
