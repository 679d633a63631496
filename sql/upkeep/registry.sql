-- What the command `concordance rebuild registry` writes after the loss of Postgres, from the rows of the lake.

-- name: mark_deleted!
-- Record when documents were deleted, which the daily erasure counts from. Parameters: source, rows (doc_id, at). Grain: document.
-- Index: primary key.
UPDATE documents AS d SET deleted_at = r.at
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, at timestamptz)
WHERE d.doc_id = r.doc_id AND d.source = :source AND d.state = 'deleted';

-- name: restore_uploads!
-- Write the records of uploads and pushed documents that are live, with the readers that they had. Parameters: source. Grain: document.
-- Index: documents_partition.
INSERT INTO uploads (
    source, source_id, doc_id, owner, partition, content_hash, file_name, title, description, mime_type, size, permissions, tags, url,
    created_at, modified_at, change
)
SELECT
    d.source,
    d.source_id,
    d.doc_id,
    d.owner,
    d.partition,
    d.content_hash,
    d.path,
    d.source_title,
    d.description,
    d.mime_type,
    coalesce(d.size, 0),
    d.permissions,
    d.tags,
    d.url,
    coalesce(d.created_at, now()),
    coalesce(d.modified_at, now()),
    nextval('uploads_change')
FROM documents AS d
WHERE d.source = :source AND d.state = 'live' AND d.owner IS NOT NULL AND d.content_hash IS NOT NULL
ON CONFLICT (source, source_id) DO NOTHING;
