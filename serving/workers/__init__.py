"""Several serving processes behind one port, on the listening socket of the supervisor, which replaces those that end or hang.

What must be right over all of them is in shared memory (`resources/servers/shared.py`) or in Postgres. The processes are alike; the
first one alone runs the assistant in Slack. The background tasks run in each: audit files and queued rows are its own, a killed process's
audit file is locked by the one that adopts it, expired rows may be deleted twice, a second sync of a source is refused by Postgres, and
monitors and watches only read.
"""
