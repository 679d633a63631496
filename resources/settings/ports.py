"""Ports that `concordance up` has chosen for a HOME because the default ones were taken. Ports in the settings take precedence."""

from __future__ import annotations

import json
from pathlib import Path

PORTS = ("http_port", "dagster_port", "qdrant_port", "postgres_port")


def file_of(home: Path) -> Path:
    return home / "run" / "ports.json"


def chosen(home: Path) -> dict[str, int]:
    """Return the chosen ports of a HOME by field; empty if none were chosen."""
    try:
        found = json.loads(file_of(home).read_bytes())
    except (OSError, ValueError):
        return {}
    return {name: int(found[name]) for name in PORTS if isinstance(found.get(name), int)}
