"""Parts of the raw stage: fetching, which listings are trusted, held-back deletions, and the rows written."""
