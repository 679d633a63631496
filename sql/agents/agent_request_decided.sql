-- Purpose: whether a person has decided on what an agent asks for. Parameters: request_hash. Grain: one row. Index: primary key.
SELECT EXISTS (SELECT 1 FROM agent_requests WHERE request_hash = %(request_hash)s) AS decided
