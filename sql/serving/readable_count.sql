-- Purpose: how many documents a search of the caller's goes through, for an answer that finds nothing.
-- Parameters: principals, fresh_since, most (count no further). Grain: one number. Index: documents_kept_permissions.
-- Archived documents are left out, as they are of a search that does not ask for them.
-- `own` are the principals as keys, which are searched in halves: as an array, each document would compare its readers with all. Fewer than
-- 300 are looked up in the index, so the statement is planned for its values.
WITH own AS MATERIALIZED (
    SELECT jsonb_object_agg(r.principal, 0) AS principals
    FROM unnest(%(principals)s::text []) AS r (principal)
)

SELECT count(*) AS readable
FROM (
    SELECT d.doc_id
    FROM checked_documents AS d
    WHERE
        d.state = 'live'
        AND CASE
            WHEN cardinality(%(principals)s::text []) < 300 THEN d.permissions && %(principals)s::text []
            ELSE (SELECT o.principals FROM own AS o) ?| d.permissions
        END
        AND NOT (SELECT o.principals FROM own AS o) ?| d.departed
        AND d.acl_checked_at >= %(fresh_since)s
        AND d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived'
    LIMIT %(most)s -- noqa: AM09
) AS f
