"""The process's log: one JSON line per event on standard output."""

import json
import sys
from datetime import UTC, datetime
from typing import Any


def log(action: str, *, level: str = "info", **fields: Any) -> None:
    """Write one line: time, level, service, action, then the fields."""
    line = {"ts": datetime.now(UTC).isoformat(), "level": level, "service": "vector", "action": action, **fields}
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()
