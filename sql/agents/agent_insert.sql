-- Purpose: connect an agent to the person of a session, with the code that it exchanges for tokens, and drop connections that have
-- expired. Nothing is stored if the session is over. Parameters: agent_id, session_id, client_hash, name, redirect_uri,
-- redirect_uri_sent, code_challenge, code_hash, now, expires_at (of the code). Grain: connection. Indexes: primary keys, agents_expires.
WITH expired AS (
    DELETE FROM agents
    WHERE expires_at < %(now)s
),

connected AS (
    INSERT INTO agents (
        agent_id, email, provider, subject, client_hash, name, redirect_uri, redirect_uri_sent, code_challenge, created_at, expires_at
    )
    SELECT
        %(agent_id)s::uuid,
        s.email,
        s.provider,
        s.subject,
        %(client_hash)s,
        %(name)s,
        %(redirect_uri)s,
        %(redirect_uri_sent)s,
        %(code_challenge)s,
        %(now)s,
        %(expires_at)s
    FROM sessions AS s
    WHERE s.session_id = %(session_id)s::uuid
    FOR KEY SHARE OF s
    ON CONFLICT (agent_id) DO UPDATE SET expires_at = excluded.expires_at
    RETURNING agent_id, expires_at
)

INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at)
SELECT
    %(code_hash)s,
    c.agent_id,
    'code',
    c.expires_at
FROM connected AS c
ON CONFLICT (token_hash) DO UPDATE SET expires_at = excluded.expires_at
