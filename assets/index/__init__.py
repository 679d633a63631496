"""Entries of documents in the vector index: what a collection should hold, writing it, and comparing and repairing it.

No Dagster, and no search: queries of the index are in `serving.search.retrieval`.
"""
