"""Entries of documents in the vector index: what a collection should hold, writing it, rebuilding it and switching to another."""
