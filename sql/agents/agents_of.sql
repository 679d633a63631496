-- Purpose: the agents that a person has connected, newest first. Parameters: email, now. Grain: connection. Index: agents_email.
SELECT
    agent_id::text AS agent_id,
    name,
    -- the scheme of an application that opens links of its own, such as cursor:
    coalesce(substring(redirect_uri FROM '^https?://([^/?#]*)'), substring(redirect_uri FROM '^[^:]*:'), '') AS host,
    created_at,
    seen_at,
    expires_at
FROM agents
WHERE email = %(email)s AND expires_at > %(now)s AND seen_at IS NOT NULL
ORDER BY created_at DESC, agent_id ASC
LIMIT 1000
