-- Purpose: partitions whose permissions were checked too long ago, so that all of their documents are held back. Those of uploads and pushed documents
-- never are.
-- Parameters: fresh_since. Grain: partition. Index: none; the table has one row per root, drive, channel, upload day or pushed source.
SELECT
    source,
    partition
FROM partitions
WHERE source NOT IN ('upload', 'push') AND coalesce(acl_checked_at < %(fresh_since)s, TRUE)
