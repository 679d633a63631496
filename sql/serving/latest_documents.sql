-- Purpose: documents that were changed last and that the caller may read, of each source in turn, as examples of what to search for.
-- Parameters: principals, fresh_since, sources, looked (documents of each source that are looked at), most. Grain: document.
-- Index: documents_latest, then primary keys. It looks at the same documents whoever asks, so that its duration says nothing about what is
-- hidden, and leaves out what it may not show: someone who may read none of them gets none.
WITH latest AS (
    SELECT g.doc_id
    FROM unnest(%(sources)s::text []) AS s (source)
    CROSS JOIN LATERAL ( -- noqa: ST05
        SELECT l.doc_id
        FROM documents AS l
        WHERE l.source = s.source AND l.state = 'live'
        ORDER BY l.modified_at DESC NULLS LAST
        LIMIT %(looked)s -- noqa: AM09
    ) AS g
)

SELECT
    d.title,
    d.mime_type
FROM latest AS g
INNER JOIN checked_documents AS d ON g.doc_id = d.doc_id
WHERE
    d.permissions && %(principals)s::text []
    AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
    AND d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived'
ORDER BY
    row_number() OVER (PARTITION BY d.source ORDER BY d.modified_at DESC NULLS LAST, d.doc_id ASC) ASC,
    d.modified_at DESC NULLS LAST,
    d.doc_id ASC
LIMIT %(most)s
