-- Purpose: a page of the audit log, newest first. Parameters: email, action, since, until, before_at and before_id (the last entry of
-- the page before), most; null does not filter. Grain: event. Indexes: audit_log_email, audit_log_action, audit_log_at.
SELECT
    event_id,
    at,
    email,
    action,
    query_id::text AS query_id,
    query,
    doc_ids::text [] AS doc_ids,
    detail
FROM audit_log
WHERE
    (%(email)s::text IS NULL OR email = %(email)s::text)
    AND (%(action)s::text IS NULL OR action = %(action)s::text)
    AND (%(since)s::timestamptz IS NULL OR at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR at < %(until)s::timestamptz)
    AND (%(before_at)s::timestamptz IS NULL OR (at, event_id) < (%(before_at)s::timestamptz, %(before_id)s::bigint))
ORDER BY at DESC, event_id DESC
LIMIT %(most)s
