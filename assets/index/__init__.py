"""Entries of documents in the vector index: what a collection should hold, writing it, and comparing it with the stores."""
