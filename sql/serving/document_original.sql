-- Purpose: the stored bytes of a document that the caller may read, with recently checked permissions. Parameters: doc_id, principals,
-- fresh_since. Grain: at most one document. Index: primary keys of documents, partitions and held_deletions.
SELECT
    d.content_hash,
    d.title,
    d.mime_type,
    p.shown_path AS path
FROM checked_documents AS d
CROSS JOIN LATERAL shown_place(
    d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, %(principals)s::text []
) AS p
WHERE
    d.doc_id = %(doc_id)s::uuid
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
