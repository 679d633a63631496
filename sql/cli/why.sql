-- A document's registry entry for the operator, regardless of permissions; permitted: whether the given user may read it.
-- Parameters: doc_ids, urls, channel, names, moment, email, principals, fresh_since. Grain: at most one document.
-- Of a channel's conversations, each of which begins after the last one, the latest that had begun at the moment are looked at.
WITH begun AS (
    SELECT
        c.doc_id,
        c.modified_at
    FROM documents AS c
    WHERE
        c.source = 'slack'
        AND c.mime_type = 'application/vnd.concordance.conversation+json'
        AND c.tags @> '{"thread": false}'
        AND c.partition = %(channel)s::text
        AND c.created_at <= %(moment)s::timestamptz
    ORDER BY c.created_at DESC
    LIMIT 50
),

named AS (
    SELECT
        w.doc_id,
        0 AS away
    FROM unnest(%(doc_ids)s::uuid []) AS w (doc_id)
    UNION ALL
    SELECT
        u.doc_id,
        1 AS away
    FROM documents AS u
    WHERE u.url = ANY(%(urls)s::text [])
    UNION ALL
    SELECT
        m.doc_id,
        0 AS away
    FROM documents AS m
    WHERE
        m.source = 'slack'
        AND split_part(m.source_id, '/', 3) = ANY(%(names)s::text [])
        AND (%(channel)s::text IS NULL OR m.partition = %(channel)s::text)
    UNION ALL
    SELECT
        b.doc_id,
        2 AS away
    FROM begun AS b
    WHERE b.modified_at >= %(moment)s::timestamptz
),

ours AS (
    SELECT
        d.doc_id,
        d.state,
        d.reason,
        d.stage,
        d.notes,
        d.created_at,
        n.away,
        coalesce(d.tags ->> 'lifecycle' = 'archived', FALSE) AS archived,
        coalesce(d.acl_checked_at < %(fresh_since)s, TRUE) AS stale,
        d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text [] AS permitted,
        coalesce(starts_with(e.content, d.content_key || '|'), d.content_key IS NULL AND e.chunk_count > 0, FALSE) AS indexed
    FROM named AS n
    INNER JOIN checked_documents AS d ON n.doc_id = d.doc_id
    LEFT JOIN active_entries AS e ON d.doc_id = e.doc_id
    UNION ALL
    SELECT
        u.doc_id,
        NULL AS state,
        NULL AS reason,
        NULL AS stage,
        '[]'::jsonb AS notes,
        u.created_at,
        3 AS away,
        FALSE AS archived,
        FALSE AS stale,
        u.permissions && %(principals)s::text [] AS permitted,
        FALSE AS indexed
    FROM named AS n
    INNER JOIN uploads AS u ON n.doc_id = u.doc_id
    WHERE u.deleted_at IS NULL
)

SELECT
    o.doc_id::text AS doc_id,
    o.state,
    o.reason,
    o.stage,
    o.notes,
    o.archived,
    o.stale,
    o.permitted,
    o.indexed,
    (SELECT count(*) FROM active_chunks AS c WHERE c.doc_id = o.doc_id) AS chunks
FROM ours AS o
ORDER BY o.permitted DESC, o.away ASC, o.created_at DESC NULLS LAST
LIMIT 1;
