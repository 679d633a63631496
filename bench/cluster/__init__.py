"""A cluster on one machine, as ordinary processes: two serving processes behind Caddy, PgBouncer before Debian's Postgres, SeaweedFS as the
lake, the vector server, and Dagster with its queue and three run workers. `make cluster` tests it and breaks parts of it under load.
"""
