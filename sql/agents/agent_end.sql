-- Purpose: end a connection, and with it all its tokens. Parameters: agent_id, email (null: anyone's). Grain: connection. Index: primary
-- key.
DELETE FROM agents
WHERE agent_id = %(agent_id)s::uuid AND (%(email)s::text IS NULL OR email = %(email)s)
RETURNING agent_id::text AS agent_id, email, name
