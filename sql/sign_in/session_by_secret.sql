-- Purpose: the session of a cookie, and note at most once a minute that it is used. Parameters: secret_hash, now, seen_before (a minute
-- ago), idle_since. Grain: session. Index: unique secret_hash.
WITH seen AS (
    UPDATE sessions SET seen_at = %(now)s
    WHERE
        secret_hash = %(secret_hash)s
        AND expires_at > %(now)s
        AND seen_at >= %(idle_since)s
        AND seen_at < %(seen_before)s
)

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
    s.secret_hash = %(secret_hash)s
    AND s.expires_at > %(now)s
    AND s.seen_at >= %(idle_since)s
