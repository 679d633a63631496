-- Purpose: a session by its ID, without noting that it is used. Parameters: session_id, now, idle_since. Grain: session. Index: primary
-- key.
SELECT
    s.session_id::text AS session_id,
    s.email,
    s.provider,
    s.subject,
    s.groups,
    s.groups_omitted,
    s.groups_at,
    s.refreshed_at,
    s.secrets IS NOT NULL AS refreshable,
    s.administrator
FROM sessions AS s
WHERE
    s.session_id = %(session_id)s::uuid
    AND s.expires_at > %(now)s
    AND s.seen_at >= %(idle_since)s
