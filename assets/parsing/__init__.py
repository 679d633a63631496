"""Confined worker processes that parse untrusted files, and the pool that runs them.

No access to a store, and no parsers: these are pure functions in `assets.stages.parse`.
"""
