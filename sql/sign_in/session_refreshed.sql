-- Purpose: store what the provider says of a session's user now. Parameters: session_id, groups, groups_omitted, secrets
-- (encrypted), now. Grain: session. Index: primary key.
UPDATE sessions SET groups = %(groups)s, groups_omitted = %(groups_omitted)s, groups_at = %(now)s, secrets = %(secrets)s
WHERE session_id = %(session_id)s::uuid
