-- Purpose: the latest agents of all people, newest first, for administrators. Parameters: now. Grain: connection. Index: none, sequential.
SELECT
    agent_id::text AS agent_id,
    name,
    -- the scheme of an application that opens links of its own, such as cursor:
    coalesce(substring(redirect_uri FROM '^https?://([^/?#]*)'), substring(redirect_uri FROM '^[^:]*:'), '') AS host,
    created_at,
    seen_at,
    expires_at,
    email
FROM agents
WHERE expires_at > %(now)s AND seen_at IS NOT NULL
ORDER BY created_at DESC, agent_id ASC
LIMIT 1000
