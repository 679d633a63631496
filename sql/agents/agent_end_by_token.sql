-- Purpose: end the connection of a token that its client revokes. Parameters: token_hash, client_hash. Grain: connection. Indexes:
-- primary keys.
DELETE FROM agents AS a
USING agent_tokens AS t
WHERE t.token_hash = %(token_hash)s AND a.agent_id = t.agent_id AND a.client_hash = %(client_hash)s
RETURNING a.agent_id::text AS agent_id, a.email, a.name
