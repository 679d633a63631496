-- Purpose: the agents that a person has connected, newest first. Parameters: email (null: everyone), now. Grain: connection. Index:
-- agents_email.
SELECT
    agent_id::text AS agent_id,
    email,
    name,
    redirect_uri,
    created_at,
    seen_at,
    expires_at
FROM agents
WHERE (%(email)s::text IS NULL OR email = %(email)s) AND expires_at > %(now)s AND seen_at IS NOT NULL
ORDER BY created_at DESC, agent_id ASC
LIMIT 1000
