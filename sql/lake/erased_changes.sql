-- Purpose: change rows to erase: all of erased documents and, of all others, replaced ones and tombstones older than the cutoff.
-- Parameters: cutoff, everything (false: only rows of the erased documents). Grain: change row.
-- A row that was written twice, because its first commit was not confirmed, does not replace itself.
-- Relations: changes (name: its table, seq, written_at, op, doc_id, content_hash, content_key), due (doc_id): the documents to erase.
WITH ordered AS (
    SELECT
        *,
        min(written_at) OVER (
            PARTITION BY name, doc_id ORDER BY seq RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS replaced_at
    FROM changes
)

SELECT name, seq, written_at, content_hash, content_key
FROM ordered
WHERE
    doc_id IN (SELECT doc_id FROM due)
    OR ($everything AND coalesce(replaced_at, CASE WHEN op = 'delete' THEN written_at END) <= $cutoff)
ORDER BY name, seq, written_at
