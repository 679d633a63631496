"""Sources: their state, starting syncs, held deletions, set-up pages, connecting an account, and notifications of changes.

The room offers `SourceServices`, which starts syncs in Dagster without importing it.
"""
