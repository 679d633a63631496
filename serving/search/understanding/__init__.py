"""Filters that a question states in words: from which source, of which type, by whom, in which channel, and when.

No language model is used and nothing is searched here: `serving.search.retrieval` applies the filters.
"""
