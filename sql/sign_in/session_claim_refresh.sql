-- Purpose: claim the refresh of a session: of several requests only one gets the secrets. Parameters: session_id, now, before. Grain:
-- session. Index: primary key.
UPDATE sessions SET refreshed_at = %(now)s
WHERE session_id = %(session_id)s::uuid AND refreshed_at < %(before)s AND secrets IS NOT NULL
RETURNING secrets
