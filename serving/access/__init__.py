"""Authentication and authorization of requests: tokens, API keys, roles, sharing and limits.

No routes, and no reads of documents: these take the resulting `Access` as an argument.
"""
