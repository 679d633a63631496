-- What ends with the accounts of people. Parameters: emails. Each statement returns whose and which it ended.

-- name: revoke_keys
-- Revoke API keys. Returns those that were valid. Grain: key. Index: api_keys_email.
UPDATE api_keys SET revoked_at = now()
WHERE email = ANY(:emails::text []) AND revoked_at IS NULL
RETURNING email, key_id AS id;

-- name: end_sessions
-- End sessions in browsers. Grain: session. Index: sessions_email.
DELETE FROM sessions WHERE email = ANY(:emails::text []) RETURNING email, session_id::text AS id;

-- name: unshare_answers
-- End the sharing of answers. Grain: answer. Index: answers_shared.
UPDATE answers SET shared_at = NULL
WHERE email = ANY(:emails::text []) AND shared_at IS NOT NULL
RETURNING email, answer_id::text AS id;

-- name: end_agents
-- End the connections of agents. Grain: agent. Index: agents_email.
DELETE FROM agents WHERE email = ANY(:emails::text []) RETURNING email, agent_id::text AS id;

-- name: record!
-- Record in the audit log what someone did. Parameters: email (of who did it), action, detail (json). Grain: event.
INSERT INTO audit_log (email, action, detail, event_key) VALUES (:email, :action, :detail::jsonb, gen_random_uuid());

-- name: record_each!
-- Record the same action several times. Parameters: email (of who did it), action, details (a json array, one entry an event). Grain: event.
INSERT INTO audit_log (email, action, detail, event_key)
SELECT
    :email,
    :action,
    d.detail,
    gen_random_uuid()
FROM jsonb_array_elements(:details::jsonb) WITH ORDINALITY AS d (detail, n)
ORDER BY d.n;
