-- Purpose: replace a code or refresh token, which is used up, by an access token and a refresh token. Stores nothing, and returns 0 rows,
-- if another request, which knows other new tokens, has used it first; processes may share a refresh token that was first used since
-- `shared_since`. Parameters: token_hash, access_hash, access_expires_at, refresh_hash, lifetime_days (of a connection, from its beginning),
-- kept_since (tokens that have expired since stay, for requests that they began), shared_since, now. Grain: token.
-- Indexes: primary keys, agent_tokens_agent.
WITH used AS (
    UPDATE agent_tokens SET used_at = coalesce(used_at, %(now)s)
    WHERE
        token_hash = %(token_hash)s
        AND (
            used_at IS NULL
            OR (kind = 'refresh' AND used_at >= %(shared_since)s)
            OR EXISTS (SELECT 1 FROM agent_tokens AS own WHERE own.token_hash = %(access_hash)s)
        )
        AND expires_at > %(now)s
    RETURNING agent_id
),

expired AS (
    DELETE FROM agent_tokens AS t
    USING used AS u
    WHERE t.agent_id = u.agent_id AND t.expires_at < %(kept_since)s
),

-- an agent that renews its tokens all the time keeps its latest hundred access tokens; used refresh tokens stay, so that a copy is noticed
superfluous AS (
    DELETE FROM agent_tokens
    WHERE token_hash IN (
        SELECT r.token_hash
        FROM (
            SELECT
                t.token_hash,
                row_number() OVER (ORDER BY t.expires_at DESC) AS place
            FROM agent_tokens AS t
            INNER JOIN used AS u ON t.agent_id = u.agent_id
            WHERE t.expires_at >= %(kept_since)s AND t.kind = 'access'
        ) AS r
        WHERE r.place > 100
    )
),

connected AS (
    UPDATE agents AS a SET seen_at = %(now)s, expires_at = a.created_at + make_interval(days => %(lifetime_days)s)
    FROM used AS u
    WHERE a.agent_id = u.agent_id
    RETURNING a.agent_id, a.expires_at
)

INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at)
SELECT
    t.token_hash,
    c.agent_id,
    t.kind,
    least(t.expires_at, c.expires_at)
FROM connected AS c
CROSS JOIN
    (
        VALUES
        (%(access_hash)s, 'access', %(access_expires_at)s),
        (%(refresh_hash)s, 'refresh', 'infinity'::timestamptz)
    ) AS t (token_hash, kind, expires_at)
ON CONFLICT (token_hash) DO UPDATE SET expires_at = excluded.expires_at
