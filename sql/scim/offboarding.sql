-- What ends with the account of a person.

-- name: revoke_keys
-- Revoke a person's API keys. Returns the ids of those that were valid. Parameters: email. Index: api_keys_email.
UPDATE api_keys SET revoked_at = now()
WHERE email = :email AND revoked_at IS NULL
RETURNING key_id;

-- name: end_sessions
-- End a person's sessions in browsers. Returns their ids. Parameters: email. Index: sessions_email.
DELETE FROM sessions WHERE email = :email RETURNING session_id::text AS session_id;

-- name: unshare_answers
-- End the sharing of a person's answers. Returns their ids. Parameters: email. Index: answers_shared.
UPDATE answers SET shared_at = NULL
WHERE email = :email AND shared_at IS NOT NULL
RETURNING answer_id::text AS answer_id;

-- name: end_agents
-- End the connections of agents to a person. Returns their ids. Parameters: email. Index: agents_email.
DELETE FROM agents WHERE email = :email RETURNING agent_id::text AS agent_id;

-- name: record!
-- Record in the audit log what someone did. Parameters: email (of who did it), action, detail (json). Grain: event.
INSERT INTO audit_log (email, action, detail, event_key) VALUES (:email, :action, :detail::jsonb, gen_random_uuid());
