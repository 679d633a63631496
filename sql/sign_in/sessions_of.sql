-- Purpose: the sessions of a person that are valid, newest first. Parameters: email, current (the session that asks, or null), now,
-- idle_since. Grain: session. Index: sessions_email.
SELECT
    session_id::text AS session_id,
    provider,
    browser,
    created_at,
    seen_at,
    expires_at,
    coalesce(session_id = %(current)s::uuid, FALSE) AS current
FROM sessions
WHERE email = %(email)s AND expires_at > %(now)s AND seen_at >= %(idle_since)s
ORDER BY created_at DESC, session_id ASC
LIMIT 1000
