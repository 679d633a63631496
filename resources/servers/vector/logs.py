"""The process's log: one JSON line per event on standard output."""

import json
import sys
from datetime import UTC, datetime
from typing import Any


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one line: time, level, event, then the fields."""
    line = {"time": datetime.now(UTC).isoformat(), "level": level, "service": "vector", "event": event, **fields}
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()
