"""Choose free ports at the start of an installation whose settings name none, and record them for every command and service.

A second installation on a machine therefore needs nothing but a CONCORDANCE_HOME of its own. Recorded ports are kept for as long as
they are free, so that addresses stay the same.
"""

from __future__ import annotations

import json

from orchestration.supervision import run_state
from resources.keys import make_home
from resources.servers.processes import alive, free_port, port_is_free
from resources.settings import Settings, read
from resources.settings.ports import PORTS, chosen, file_of

NEAR = 100
"""Ports above the default one that are tried before any free one."""


def choose(settings: Settings) -> Settings:
    """Return the settings with a free port for each service whose port they do not name. Writes nothing.

    Services of this HOME that are still running keep their ports.
    """
    if any(service.identity and alive(service.identity) for service in run_state.read(settings).services.values()):
        return settings
    given = _given(settings)
    wanted = {name: getattr(settings, name) for name in PORTS}
    taken = {port for name, port in wanted.items() if name in given}
    for name, port in wanted.items():
        if name not in given:
            host = settings.http_host if name == "http_port" else "127.0.0.1"
            wanted[name] = _free(port, host, taken)
            taken.add(wanted[name])
    changed = {name: port for name, port in wanted.items() if port != getattr(settings, name)}
    return settings.model_copy(update=changed)


def record(settings: Settings) -> None:
    """Record the ports that differ from the defaults and are not in the settings. Creates HOME."""
    given = _given(settings)
    found = {
        name: getattr(settings, name)
        for name in PORTS
        if name not in given and getattr(settings, name) != Settings.model_fields[name].default
    }
    if found == chosen(settings.home):
        return
    make_home(settings)
    draft = file_of(settings.home).with_suffix(".new")
    draft.write_text(json.dumps(found) + "\n", encoding="utf-8")
    draft.replace(file_of(settings.home))


def changes(before: Settings, after: Settings) -> list[str]:
    """Return a line for each port that was replaced."""
    names = {"http_port": "the HTTP interface", "dagster_port": "Dagster", "qdrant_port": "the vector server"}
    return [
        f"Port {getattr(before, name)} is taken: {names.get(name, 'Postgres')} uses {getattr(after, name)}."
        for name in PORTS
        if getattr(before, name) != getattr(after, name)
    ]


def _given(settings: Settings) -> set[str]:
    """Return the ports that the settings name. A recorded one is none of them, although `up` passes it to other processes."""
    named, recorded = read(Settings), chosen(settings.home)
    return {name for name in PORTS if name in named.model_fields_set and getattr(named, name) != recorded.get(name)}


def _free(port: int, host: str, taken: set[int]) -> int:
    for candidate in range(port, min(port + NEAR, 65536)):
        if candidate not in taken and port_is_free(candidate, host):
            return candidate
    return free_port()
