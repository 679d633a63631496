-- Purpose: registry entry of a document that this caller may read, by its id, its link or its location in Slack; no row for any other.
-- Where ids and addresses contain the path, callers who may not know all its folders find the document by `own_id` only.
-- For the operator's commands (`operator`), of any document; `permitted` then says whether the person with these principals may read it.
-- Parameters: doc_ids, own_id (null: none was given), urls, channel, names, moment, principals, fresh_since, operator.
-- Grain: at most one document. Index: primary keys, documents_url, documents_slack_name, documents_slack_moment, chunks (doc_id, collection, chunk_index).
-- Conversations of a channel follow each other: only the latest that began before `moment` are searched.
WITH conversations AS (
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

candidates AS (
    SELECT
        w.doc_id,
        0 AS preference
    FROM unnest(%(doc_ids)s::uuid []) AS w (doc_id)
    UNION ALL
    SELECT
        u.doc_id,
        1 AS preference
    FROM documents AS u
    WHERE u.url = ANY(%(urls)s::text [])
    UNION ALL
    SELECT
        m.doc_id,
        0 AS preference
    FROM documents AS m
    WHERE
        m.source = 'slack'
        AND split_part(m.source_id, '/', 3) = ANY(%(names)s::text [])
        AND (%(channel)s::text IS NULL OR m.partition = %(channel)s::text)
    UNION ALL
    SELECT
        b.doc_id,
        2 AS preference
    FROM conversations AS b
    WHERE b.modified_at >= %(moment)s::timestamptz
),

matches AS (
    SELECT
        d.doc_id,
        d.state,
        d.reason,
        d.stage,
        d.notes,
        d.created_at,
        n.preference,
        coalesce(d.tags ->> 'lifecycle' = 'archived', FALSE) AS archived,
        coalesce(d.acl_checked_at < %(fresh_since)s, TRUE) AS stale,
        d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text [] AS permitted,
        coalesce(starts_with(e.content, d.content_key || '|'), d.content_key IS NULL AND e.chunk_count > 0, FALSE) AS indexed
    FROM candidates AS n
    INNER JOIN checked_documents AS d ON n.doc_id = d.doc_id
    LEFT JOIN active_entries AS e ON d.doc_id = e.doc_id
    CROSS JOIN LATERAL shown_place(
        d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, %(principals)s::text []
    ) AS p
    WHERE
        %(operator)s::boolean
        OR d.source IN (SELECT s.source FROM sources AS s WHERE NOT s.named_by_path) OR d.doc_id = %(own_id)s::uuid OR p.whole
    UNION ALL
    SELECT
        u.doc_id,
        NULL AS state,
        NULL AS reason,
        NULL AS stage,
        '[]'::jsonb AS notes,
        u.created_at,
        3 AS preference,
        FALSE AS archived,
        FALSE AS stale,
        u.permissions && %(principals)s::text [] AS permitted,
        FALSE AS indexed
    FROM candidates AS n
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
FROM matches AS o
WHERE %(operator)s::boolean OR (o.permitted AND NOT o.stale)
ORDER BY o.permitted DESC, o.preference ASC, o.created_at DESC NULLS LAST
LIMIT 1
