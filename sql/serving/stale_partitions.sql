-- Purpose: partitions whose permissions were checked too long ago, so that all of their documents are held back. Permissions that
-- are kept here never are.
-- Parameters: fresh_since. Grain: partition. Index: none; the table has one row per root, drive, channel, upload day or pushed source.
SELECT
    source,
    partition
FROM partitions
WHERE source NOT IN (SELECT s.source FROM sources AS s WHERE s.own_permissions) AND coalesce(acl_checked_at < %(fresh_since)s, TRUE)
