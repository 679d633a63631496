-- Purpose: record that a person decided on what an agent asks for, and drop decisions on requests that have expired. Stores nothing, and
-- returns 0 rows, if it was decided on before. Parameters: request_hash, claim (of this decision), now, expires_at. Grain: decision.
-- Index: primary key.
WITH expired AS (
    DELETE FROM agent_requests
    WHERE expires_at < %(now)s::timestamptz - interval '1 day'
)

INSERT INTO agent_requests (request_hash, expires_at, claim)
VALUES (%(request_hash)s, %(expires_at)s, %(claim)s::uuid)
ON CONFLICT (request_hash) DO UPDATE SET claim = excluded.claim
WHERE agent_requests.claim = excluded.claim
