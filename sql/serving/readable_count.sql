-- Purpose: how many documents a search of the caller's goes through, for an answer that finds nothing.
-- Parameters: principals, fresh_since, most (count no further). Grain: one number. Index: documents_kept_permissions.
-- Archived documents are left out, as they are of a search that does not ask for them.
SELECT count(*) AS readable
FROM (
    SELECT d.doc_id
    FROM checked_documents AS d
    WHERE
        d.state = 'live'
        AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
        AND d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived'
    LIMIT %(most)s -- noqa: AM09
) AS f
