-- Purpose: whom an access token is for, with the groups that the provider last reported in a session of this person, and note at most
-- once a minute that it is used. Parameters: token_hash, providers (that are set up), now, valid_at (when the token must not have expired),
-- seen_before (a minute ago), fresh_since (older groups grant nothing), idle_since (a session that nobody has used since is over). Grain:
-- token. Indexes: primary keys, sessions_email.
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
        AND t.expires_at > %(valid_at)s
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
    coalesce(s.groups, ARRAY[]::text []) AS groups,
    coalesce(s.groups_omitted, FALSE) AS groups_omitted
FROM found AS f
LEFT JOIN LATERAL (
    SELECT
        one.groups,
        one.groups_omitted
    FROM sessions AS one
    WHERE
        one.email = f.email
        AND one.provider = f.provider
        AND one.expires_at > %(now)s
        AND one.groups_at >= %(fresh_since)s
        AND one.seen_at >= %(idle_since)s
    ORDER BY one.groups_at DESC
    LIMIT 1
) AS s ON TRUE
