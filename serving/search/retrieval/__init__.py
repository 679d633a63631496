"""Search: candidates from the index, fusion, the permission check in Postgres, and ranking.

Every function that reads takes the caller's access.
"""
