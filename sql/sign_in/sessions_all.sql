-- Purpose: the latest sessions that are valid, newest first, for administrators. Parameters: email (null: of everyone), now, idle_since.
-- Grain: session. Index: sessions_email.
SELECT
    session_id::text AS session_id,
    email,
    provider,
    administrator,
    browser,
    created_at,
    seen_at,
    expires_at
FROM sessions
WHERE (%(email)s::text IS NULL OR email = %(email)s) AND expires_at > %(now)s AND seen_at >= %(idle_since)s
ORDER BY created_at DESC, session_id ASC
LIMIT 1000
