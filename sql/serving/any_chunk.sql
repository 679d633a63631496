-- Purpose: check whether anything that the caller may read is indexed. Parameters: principals. Grain: one row.
-- Index: documents_kept_permissions.
SELECT EXISTS (
    SELECT 1 FROM documents WHERE state = 'live' AND chunk_count > 0 AND permissions && %(principals)s::text []
) AS indexed
