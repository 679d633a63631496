-- Purpose: contents as they were parsed for a source that may be erased; as unused_contents.
-- Relations: erased_changes, due and parses (content_key): candidates; changes and in_use (content_key): what stays. Grain: content key.
WITH candidates AS (
    SELECT content_key FROM erased_changes
    UNION
    SELECT content_key FROM due
    UNION
    SELECT content_key FROM parses
),

staying AS (
    SELECT c.content_key
    FROM changes AS c ANTI JOIN erased_changes AS e ON c.name = e.name AND c.seq = e.seq AND c.written_at = e.written_at
    UNION ALL
    SELECT content_key FROM in_use
)

SELECT c.content_key
FROM candidates AS c ANTI JOIN staying AS s ON c.content_key = s.content_key
WHERE c.content_key IS NOT NULL
ORDER BY c.content_key
