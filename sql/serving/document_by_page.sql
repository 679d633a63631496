-- Purpose: the document shown on a reader's page, if this caller may read it; of several the best match, then the latest.
-- Parameters: doc_ids, own_id (null: none was given), urls, paths (within any root of a source that names documents by their paths), collection_id (null: any; one that the caller may
-- know), sources (that the collection may belong to), principals, fresh_since. Callers who may not know all folders of a path find its document by `own_id` only, if its source names documents by their paths.
-- Grain: at most one document. Index: primary keys of documents and partitions, documents_url, unique (source, source_id).
WITH candidates AS (
    SELECT
        w.doc_id,
        1 AS preference
    FROM unnest(%(doc_ids)s::uuid []) AS w (doc_id)
    UNION ALL
    SELECT
        u.doc_id,
        2 AS preference
    FROM documents AS u
    WHERE u.url = ANY(%(urls)s::text [])
    UNION ALL
    SELECT
        f.doc_id,
        2 + w.place::integer AS preference
    FROM unnest(%(paths)s::text []) WITH ORDINALITY AS w (path, place)
    CROSS JOIN partitions AS p
    INNER JOIN sources AS s ON p.source = s.source
    INNER JOIN documents AS f ON p.source = f.source AND f.source_id = p.partition || '/' || w.path
    WHERE s.named_by_path
)

SELECT d.doc_id::text AS doc_id
FROM candidates AS n
INNER JOIN checked_documents AS d ON n.doc_id = d.doc_id
LEFT JOIN sources AS s ON d.source = s.source
CROSS JOIN LATERAL shown_place(
    d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, %(principals)s::text []
) AS p
WHERE
    d.state = 'live'
    AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
    AND (
        %(collection_id)s::text IS NULL
        OR (d.source = ANY(%(sources)s::text []) AND %(collection_id)s::text = ANY(p.shown_collections))
    )
    AND (d.doc_id = %(own_id)s::uuid OR (n.preference = 1 AND NOT coalesce(s.named_by_path, TRUE)) OR p.shown_url IS NOT NULL OR p.whole)
ORDER BY n.preference ASC, (s.named_by_path AND d.tags ->> 'kind' = 'book') DESC NULLS LAST, d.modified_at DESC NULLS LAST
LIMIT 1
