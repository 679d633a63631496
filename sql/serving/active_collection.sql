-- Purpose: the collection that searches read, and its model. No parameters. Grain: one row, none before the first sync.
-- Index: index_collections_one_active.
SELECT
    name,
    model,
    dimensions,
    provider,
    model_source,
    model_dimensions,
    model_window,
    model_prompts
FROM index_collections
WHERE active
