-- Purpose: documents that the caller may read, with recently checked permissions. Parameters: doc_ids, principals, fresh_since.
-- Grain: document. Index: primary keys of documents, partitions, held_deletions and index_entries.
SELECT
    d.doc_id::text AS doc_id,
    d.title,
    d.source AS source_type,
    p.shown_source_id AS source_id,
    p.shown_collection AS collection_id,
    p.shown_path AS path,
    d.mime_type,
    p.shown_url AS url,
    d.owner,
    d.author,
    d.tags,
    d.created_at,
    d.modified_at,
    e.indexed_at,
    d.language,
    d.page_count,
    coalesce(d.notes, '[]') AS notes,
    coalesce(e.chunk_count, 0) AS chunk_count,
    d.acl_checked_at
FROM checked_documents AS d
LEFT JOIN active_entries AS e ON d.doc_id = e.doc_id
CROSS JOIN LATERAL shown_place(
    d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, %(principals)s::text []
) AS p
WHERE
    d.doc_id = ANY(%(doc_ids)s::uuid [])
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
    AND d.acl_checked_at >= %(fresh_since)s
