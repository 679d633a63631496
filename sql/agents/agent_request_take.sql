-- Purpose: take what an agent asks for, as JSON, so that it is decided on once. Parameters: request_hash, now. Grain: request. Index:
-- primary key.
DELETE FROM agent_requests
WHERE request_hash = %(request_hash)s AND expires_at > %(now)s
RETURNING request::text AS request
