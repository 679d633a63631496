"""Search quality: on test collections with judgements, and on the company's own questions.

No search of its own: it measures `serving.search.retrieval`, which the HTTP interface uses.
"""
