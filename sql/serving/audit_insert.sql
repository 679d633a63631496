-- Purpose: record who searched what, or opened what. Parameters: email, action, query_id, query, doc_ids, detail (json).
-- Grain: event.
INSERT INTO audit_log (email, action, query_id, query, doc_ids, detail)
VALUES (
    %(email)s, %(action)s, %(query_id)s::uuid, %(query)s, %(doc_ids)s::uuid [], coalesce(%(detail)s::jsonb, '{}')
)
