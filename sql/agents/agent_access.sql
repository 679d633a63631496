-- Purpose: whom an access token is for, with the groups that the provider last reported in a session of this person, and note at most
-- once a minute that it is used. Parameters: token_hash, providers (that are set up), now, seen_before (a minute ago), fresh_since
-- (older groups grant nothing). Grain: token. Indexes: primary keys, sessions_email.
WITH found AS (
    SELECT
        a.agent_id,
        a.email,
        a.provider
    FROM agent_tokens AS t
    INNER JOIN agents AS a ON t.agent_id = a.agent_id
    WHERE
        t.token_hash = %(token_hash)s
        AND t.kind = 'access'
        AND t.expires_at > %(now)s
        AND a.provider = ANY(%(providers)s::text [])
),

seen AS (
    UPDATE agents AS a SET seen_at = %(now)s
    FROM found AS f
    WHERE a.agent_id = f.agent_id AND a.seen_at < %(seen_before)s
)

SELECT
    f.email,
    f.provider,
    coalesce(
        (
            SELECT s.groups
            FROM sessions AS s
            WHERE
                s.email = f.email
                AND s.provider = f.provider
                AND s.expires_at > %(now)s
                AND s.groups_at >= %(fresh_since)s
            ORDER BY s.groups_at DESC
            LIMIT 1
        ),
        ARRAY[]::text []
    ) AS groups
FROM found AS f
