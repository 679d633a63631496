-- Purpose: check whether anything that the caller may read is indexed. Parameters: principals. Grain: one row.
-- Index: documents_kept_permissions, primary key of index_entries.
SELECT EXISTS (
    SELECT 1
    FROM documents AS d
    INNER JOIN active_entries AS e ON d.doc_id = e.doc_id
    WHERE d.state = 'live' AND d.permissions && %(principals)s::text [] AND e.chunk_count > 0
) AS indexed
