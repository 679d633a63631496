-- Purpose: whether anything at all is indexed that the caller may read. Parameters: principals. Grain: one row.
-- Index: documents_permissions.
SELECT EXISTS (
    SELECT 1 FROM documents WHERE state = 'live' AND chunk_count > 0 AND permissions && %(principals)s::text []
) AS indexed
