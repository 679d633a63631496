-- Asset checks. Grain: partition.

-- name: completeness
-- The source's own count of each partition and the ledger's; differing ones first. Parameters: source.
-- Index: document_counts_partition.
WITH ledger AS (
    SELECT
        partition, cast(sum(documents) FILTER (WHERE state = 'live') AS bigint) AS live,
        cast(sum(documents) FILTER (WHERE state = 'skipped') AS bigint) AS skipped,
        cast(sum(documents) FILTER (WHERE state = 'failed') AS bigint) AS failed
    FROM document_counts
    WHERE source = :source
    GROUP BY partition
),

waiting AS (
    SELECT d.partition, count(*) AS held
    FROM held_deletions AS h
    INNER JOIN documents AS d ON d.source = h.source AND d.source_id = h.source_id AND d.state IN ('live', 'skipped', 'failed')
    WHERE h.source = :source
    GROUP BY d.partition
),

compared AS (
    SELECT
        p.partition, p.title, p.source_count, coalesce(l.live, 0) AS live, coalesce(l.skipped, 0) AS skipped,
        coalesce(l.failed, 0) AS failed, coalesce(w.held, 0) AS held
    FROM partitions AS p
    LEFT JOIN ledger AS l ON l.partition = p.partition
    LEFT JOIN waiting AS w ON w.partition = p.partition
    WHERE p.source = :source AND p.lost_at IS NULL
)

SELECT
    partition, title, source_count, live, skipped, failed, held,
    coalesce(source_count = live + skipped + failed - held, TRUE) AS complete
FROM compared
ORDER BY complete, partition;

-- name: contents_of
-- Contents that the lake should hold of some documents of a source. Parameters: source, doc_ids. Grain: document. Index: primary key.
SELECT doc_id::text AS doc_id, partition, content_hash
FROM documents
WHERE doc_id = ANY(:doc_ids::uuid []) AND source = :source AND state <> 'deleted' AND content_hash IS NOT NULL;
