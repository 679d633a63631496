"""Clients and access code of what keeps the data: Postgres, the vector index, Delta tables and blobs."""
