"""Servers that Concordance starts by itself, Postgres and the vector server, and what processes and sockets need. No client code."""
