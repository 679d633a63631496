"""Credentials and authorization of requests: tokens, API keys, roles, sharing and limits.

No routes, and no reads of documents: these take the resulting `Access` as an argument. `serving.authentication` puts it together.
"""
