-- Purpose: record who searched what, or opened what. Parameters: put_at, email, action, query_id, query, doc_ids, detail (json).
-- Grain: event.
INSERT INTO audit_log (at, email, action, query_id, query, doc_ids, detail)
VALUES (
    %(put_at)s, %(email)s, %(action)s, %(query_id)s::uuid, %(query)s, %(doc_ids)s::uuid [], coalesce(%(detail)s::jsonb, '{}')
)
