-- Purpose: documents that the caller may read. Parameters: doc_ids, principals. Grain: document. Index: primary key.
SELECT
    d.doc_id::text AS doc_id,
    d.title,
    d.source AS source_type,
    d.source_id,
    d.collection_ids [1] AS collection_id,
    d.path,
    d.mime_type,
    d.url,
    d.owner,
    d.author,
    d.tags,
    d.created_at,
    d.modified_at,
    d.indexed_at,
    d.language,
    d.page_count,
    d.chunk_count,
    p.acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
WHERE
    d.doc_id = ANY(%(doc_ids)s::uuid [])
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text []
