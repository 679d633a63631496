-- Held mass deletions. Grain: (source, partition).

-- name: held
-- Held deletions, and their share of the partition. Grain: (source, partition, approved or not).
SELECT
    h.source, h.partition, max(p.title) AS title, count(*) AS documents,
    (
        SELECT count(*) FROM documents AS d
        WHERE d.source = h.source AND d.partition = h.partition AND d.state IN ('live', 'skipped', 'failed')
    ) AS of_documents,
    min(h.held_at) AS held_at,
    max(h.held_at) AS last_held_at,
    max(h.approved_at) AS approved_at,
    max(h.approved_by) AS approved_by,
    ARRAY(
        SELECT e.source_id FROM held_deletions AS e
        WHERE e.source = h.source AND e.partition = h.partition AND (e.approved_at IS NULL) = h.waits
        ORDER BY e.source_id
        LIMIT 5
    ) AS examples
FROM (SELECT *, approved_at IS NULL AS waits FROM held_deletions) AS h
LEFT JOIN partitions AS p ON p.source = h.source AND p.partition = h.partition
GROUP BY h.source, h.partition, h.waits
ORDER BY h.source, h.partition, h.waits;

-- name: approve
-- Approve deletions for the next sync. Parameters: source, partition or null, last_held_at (the last one to decide on) or null, approved_by.
WITH done AS (
    UPDATE held_deletions SET approved_at = now(), approved_by = :approved_by
    WHERE
        source = :source AND (:partition::text IS NULL OR partition = :partition::text) AND approved_at IS NULL
        AND (:last_held_at::timestamptz IS NULL OR held_at <= :last_held_at::timestamptz)
    RETURNING partition
)

SELECT partition, count(*) AS documents FROM done GROUP BY partition ORDER BY partition;

-- name: reject
-- Discard held deletions: the documents stay until the source reports the deletion again. Parameters: source, partition or null, last_held_at
-- (the last one to decide on) or null: then also those that were approved and not yet carried out.
WITH done AS (
    DELETE FROM held_deletions
    WHERE
        source = :source AND (:partition::text IS NULL OR partition = :partition::text)
        AND (:last_held_at::timestamptz IS NULL OR (held_at <= :last_held_at::timestamptz AND approved_at IS NULL))
    RETURNING partition
)

SELECT partition, count(*) AS documents FROM done GROUP BY partition ORDER BY partition;

-- name: left
-- Number of deletions that wait. Parameters: source, partition or null.
SELECT count(*) AS documents FROM held_deletions
WHERE source = :source AND (:partition::text IS NULL OR partition = :partition::text) AND approved_at IS NULL;
