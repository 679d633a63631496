-- Purpose: a code or refresh token of a client, and the connection that it belongs to. Parameters: token_hash, kind, client_hash. Grain:
-- token. Indexes: primary keys, agent_tokens_agent.
SELECT
    a.agent_id::text AS agent_id,
    a.email,
    a.name,
    a.redirect_uri,
    a.redirect_uri_sent,
    a.code_challenge,
    t.expires_at,
    t.used_at,
    (SELECT count(*) FROM agent_tokens AS o WHERE o.agent_id = a.agent_id AND o.kind = 'refresh') AS renewals
FROM agent_tokens AS t
INNER JOIN agents AS a ON t.agent_id = a.agent_id
WHERE t.token_hash = %(token_hash)s AND t.kind = %(kind)s AND a.client_hash = %(client_hash)s
