-- Purpose: end the connections that a person allowed with a provider. Parameters: email, provider. Grain: connection. Index:
-- agents_email.
DELETE FROM agents
WHERE email = %(email)s AND provider = %(provider)s
RETURNING agent_id::text AS agent_id, email, name
