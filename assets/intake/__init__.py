"""Parts of the raw stage: fetch documents, record listings, hold mass deletions, and build the rows that are written.

No Dagster and no code for a particular source: a source is reached through the port `Source` only.
"""
