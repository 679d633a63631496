-- Purpose: keep what an agent asks for, and drop requests that have expired. Parameters: request_hash, request (json), now, expires_at.
-- Grain: request. Index: agent_requests_expires.
WITH expired AS (
    DELETE FROM agent_requests
    WHERE expires_at < %(now)s
)

INSERT INTO agent_requests (request_hash, request, expires_at)
VALUES (%(request_hash)s, %(request)s, %(expires_at)s)
