"""Compare the lake, the registry and the blob store in DuckDB (`sql/lake`): on disk, in the folder for temporary files, beyond `MEMORY`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from resources.core.scratch import full, scratch_folder
from sql import statement

if TYPE_CHECKING:
    import duckdb

MEMORY = "128MB"
THREADS = 2


class ScratchTables:
    """Tables of one comparison."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def add(self, name: str, rows: pl.DataFrame) -> None:
        """Add rows to a table, which the first ones create."""
        self._connection.register("rows_to_add", cast("Any", rows).to_arrow())  # pyarrow has no types
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS FROM rows_to_add LIMIT 0")
        self._connection.execute(f"INSERT INTO {name} BY NAME FROM rows_to_add")

    def make(self, name: str, **parameters: object) -> pl.DataFrame:
        """Create a table of what `sql/lake/<name>.sql` selects from the others; return its rows."""
        self._connection.execute(f"CREATE TABLE {name} AS {statement('lake', name)}", parameters)
        return cast("Any", pl).from_arrow(self._connection.table(name).to_arrow_table())


@contextmanager
def scratch_tables(schemas: Mapping[str, Mapping[str, Any]]) -> Generator[ScratchTables]:
    """Open empty tables with these columns. Raises `AbortSyncError` in the block if there is no room for them on the disk."""
    import duckdb

    with scratch_folder() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": THREADS,
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            tables = ScratchTables(connection)
            for name, schema in schemas.items():
                tables.add(name, pl.DataFrame(schema=schema))
            try:
                yield tables
            except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
                raise full(error) from error
