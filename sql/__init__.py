"""SQL by table family: statements under aiosql headers (`-- name: known`) in `sql/<family>/*.sql`.

`sql.family` gives them types. `migrations/` holds the schema, and `lake/` DuckDB statements, which
`resources.stores.lake_sql` runs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import aiosql

ROOT = Path(__file__).parent
MIGRATIONS = ROOT / "migrations"


def load(path: Path) -> Any:
    """Return the named statements of a file."""
    library: Any = aiosql  # its types are incomplete
    return library.from_path(path, "psycopg", mandatory_parameters=False)


@cache
def statement(family: str, name: str) -> str:
    """Return the text of `sql/<family>/<name>.sql` without comment lines: psycopg parses a text of more than 4,096 characters each time.

    Source: `MAX_CACHED_STATEMENT_LENGTH` in psycopg's `_queries.py`.
    """
    lines = (ROOT / family / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))
