-- Purpose: the latest deletions and how far each is proved, newest first. Parameters: most. Grain: (document, deletion).
-- Index: deletion_receipts_at.
SELECT
    doc_id::text AS doc_id,
    source,
    tombstone_at,
    points_gone_at,
    verified_at,
    erased_at
FROM deletion_receipts
ORDER BY tombstone_at DESC, doc_id ASC
LIMIT %(most)s;
