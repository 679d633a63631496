"""Clients and access code of the stores: Postgres, the vector index, Delta tables and blobs.

No connector and no HTTP route is imported here; SQL statements are in `sql`.
"""
