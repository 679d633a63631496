-- Purpose: record who searched for or opened what; an existing event is not changed.
-- Parameters: put_at, email, action, query_id, query, doc_ids, detail (json), event_key. Grain: event. Index: audit_log_event_key.
INSERT INTO audit_log (at, email, action, query_id, query, doc_ids, detail, event_key)
VALUES (
    %(put_at)s, %(email)s, %(action)s, %(query_id)s::uuid, %(query)s, %(doc_ids)s::uuid [], coalesce(%(detail)s::jsonb, '{}'),
    %(event_key)s::uuid
)
ON CONFLICT (event_key) DO NOTHING
