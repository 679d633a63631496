-- Purpose: the completeness ledger for users who are not administrators: documents per source that the caller may read, by state.
-- Parameters: principals, fresh_since. Grain: source. Index: documents_kept_permissions.
-- `own` are the principals as keys, which are searched in halves: as an array, each document would compare its readers with all. Fewer than
-- 300 are looked up in the index, so the statement is planned for its values.
WITH own AS MATERIALIZED (
    SELECT jsonb_object_agg(r.principal, 0) AS principals
    FROM unnest(%(principals)s::text []) AS r (principal)
)

SELECT
    d.source,
    count(*) FILTER (WHERE d.state = 'live') AS live,
    count(*) FILTER (WHERE d.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE d.state = 'failed') AS failed,
    count(*) FILTER (WHERE d.state = 'lost_access') AS lost_access,
    count(h.source_id) FILTER (WHERE d.state IN ('live', 'skipped', 'failed')) AS held_deletions
FROM checked_documents AS d
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE
    d.state <> 'deleted'
    AND CASE
        WHEN cardinality(%(principals)s::text []) < 300 THEN d.permissions && %(principals)s::text []
        ELSE (SELECT o.principals FROM own AS o) ?| d.permissions
    END
    AND NOT (SELECT o.principals FROM own AS o) ?| d.departed
    AND d.acl_checked_at >= %(fresh_since)s
GROUP BY d.source
