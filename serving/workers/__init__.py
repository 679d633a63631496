"""Several serving processes behind one port: a leader and the followers that it starts, on the same listening socket.

What must be right over all of them is in shared memory (`resources/servers/shared.py`) or in Postgres. Only the leader waits for its
turn, hands out the socket and looks after processes. The background tasks run in each process: audit files and queued rows are its
own, a killed process's audit file is locked by the one that adopts it, expired rows may be deleted twice, a second sync of a source is
refused by Postgres, and monitors and watches only read.
"""
