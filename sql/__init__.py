"""SQL by table family: statements under aiosql headers (`-- name: known`) in `sql/<family>/*.sql`.

`sql.family` gives them types. `migrations/` holds the schema, and `lake/` DuckDB statements that run over Arrow tables, read by
`statement("lake", "missing")`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import aiosql

ROOT = Path(__file__).parent
MIGRATIONS = ROOT / "migrations"


@cache
def queries(family: str) -> Any:
    """Return the named statements of one family for a synchronous psycopg 3 connection."""
    return aiosql.from_path(ROOT / family, "psycopg", mandatory_parameters=False)


@cache
def statement(family: str, name: str) -> str:
    """Return the text of `sql/<family>/<name>.sql`, comments included."""
    return (ROOT / family / f"{name}.sql").read_text(encoding="utf-8")
