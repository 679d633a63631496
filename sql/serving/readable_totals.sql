-- Purpose: the completeness ledger for users who are not administrators: documents per source that the caller may read, by state.
-- Parameters: principals, fresh_since. Grain: source. Index: documents_kept_permissions.
SELECT
    d.source,
    count(*) FILTER (WHERE d.state = 'live') AS live,
    count(*) FILTER (WHERE d.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE d.state = 'failed') AS failed,
    count(*) FILTER (WHERE d.state = 'lost_access') AS lost_access,
    count(h.source_id) FILTER (WHERE d.state IN ('live', 'skipped', 'failed')) AS held_deletions
FROM checked_documents AS d
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE d.state <> 'deleted' AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text [] AND d.acl_checked_at >= %(fresh_since)s
GROUP BY d.source
