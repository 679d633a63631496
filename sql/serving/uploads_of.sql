-- Purpose: the uploads of a person, newest first, whether or not they are indexed. Parameters: email, most. Grain: upload.
-- Index: uploads_owner.
SELECT
    doc_id::text AS doc_id,
    file_name,
    title,
    description,
    mime_type,
    size,
    permissions,
    tags,
    created_at,
    modified_at
FROM uploads
WHERE owner = %(email)s AND deleted_at IS NULL
ORDER BY created_at DESC
LIMIT %(most)s
