-- Purpose: the collection that searches read, its model, whether its points have `reader_ids`, and the languages of the corpus. No parameters. Grain: one row, none before the
-- first sync. Index: index_collections_one_active; documents_language, from one language to the next.
WITH RECURSIVE corpus AS (
    SELECT min(d.language) AS language
    FROM documents AS d
    WHERE d.state = 'live'
    UNION ALL
    SELECT (SELECT min(d.language) FROM documents AS d WHERE d.state = 'live' AND d.language > c.language)
    FROM corpus AS c
    WHERE c.language IS NOT NULL
)

SELECT
    name,
    model,
    dimensions,
    provider,
    model_source,
    model_dimensions,
    model_window,
    model_prompts,
    reader_ids,
    ARRAY(SELECT c.language FROM corpus AS c WHERE c.language IS NOT NULL) AS languages
FROM index_collections
WHERE active
