-- Purpose: the second lock: of these chunks, those that the caller may read right now, with fresh metadata.
-- Parameters: chunk_ids, principals. Grain: chunk. Index: primary keys of chunks, documents and partitions.
SELECT
    c.chunk_id::text AS chunk_id,
    c.doc_id::text AS doc_id,
    c.chunk_index,
    c.chunk_text,
    c.text_hash,
    c.section_path,
    c.anchor,
    c.page_start,
    c.page_end,
    c.start_char,
    c.places,
    d.title,
    d.source AS source_type,
    d.source_id,
    d.collection_ids [1] AS collection_id,
    d.path,
    d.mime_type,
    d.url,
    d.owner,
    d.tags,
    d.created_at,
    d.modified_at,
    p.acl_checked_at
FROM chunks AS c
INNER JOIN documents AS d ON c.doc_id = d.doc_id
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
WHERE
    c.chunk_id = ANY(%(chunk_ids)s::uuid [])
    AND d.state = 'live'
    AND d.permissions && %(principals)s::text []
