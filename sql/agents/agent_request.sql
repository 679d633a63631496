-- Purpose: what an agent asks for, as JSON. Parameters: request_hash, now. Grain: request. Index: primary key.
SELECT request::text AS request FROM agent_requests
WHERE request_hash = %(request_hash)s AND expires_at > %(now)s
