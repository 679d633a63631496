"""Search: what a query means, candidates from the index, the permission check in Postgres, ranking, results and their citations.

Every function that reads takes the caller's access; the room offers `SearchServices`, whose `retriever` all interfaces use.
"""
