-- Purpose: contents that may be erased: named by no change row that stays, nor in use.
-- Relations: erased_changes, due and blobs (content_hash): candidates; changes and in_use (content_hash): what stays. Grain: content.
WITH candidates AS (
    SELECT content_hash FROM erased_changes
    UNION
    SELECT content_hash FROM due
    UNION
    SELECT content_hash FROM blobs
),

staying AS (
    SELECT c.content_hash
    FROM changes AS c ANTI JOIN erased_changes AS e ON c.name = e.name AND c.seq = e.seq AND c.written_at = e.written_at
    UNION ALL
    SELECT content_hash FROM in_use
)

SELECT c.content_hash
FROM candidates AS c ANTI JOIN staying AS s ON c.content_hash = s.content_hash
WHERE c.content_hash IS NOT NULL
ORDER BY c.content_hash
