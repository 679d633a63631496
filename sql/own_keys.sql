-- API keys that people make for themselves. Grain: key. A person's exist for nobody else but administrators.

-- name: own_keys
-- The valid keys that a person has made, newest first. Parameters: email, now. Grain: key. Index: api_keys_email.
SELECT
    key_id,
    name,
    scopes,
    created_at,
    used_at,
    expires_at
FROM api_keys
WHERE email = :email AND provider IS NOT NULL AND revoked_at IS NULL AND expires_at > :now
ORDER BY created_at DESC, key_id ASC
LIMIT 100;

-- name: insert_own!
-- Store a key of the person of a session, in place of those of the person that are over. Nothing is stored if the session is over, or if
-- the person has `most` valid ones. Parameters: session_id, email, key_id, key_hash, name, scopes, now, expires_at, most. Grain: key.
-- Indexes: primary keys, api_keys_email.
WITH ended AS (
    DELETE FROM api_keys
    WHERE email = :email AND provider IS NOT NULL AND (revoked_at IS NOT NULL OR expires_at <= :now)
)

INSERT INTO api_keys (key_id, key_hash, email, groups, admin, scim, name, scopes, provider, subject, created_at, expires_at)
SELECT
    :key_id,
    :key_hash,
    s.email,
    ARRAY[]::text [],
    FALSE,
    FALSE,
    :name,
    :scopes::text [],
    s.provider,
    s.subject,
    :now,
    :expires_at
FROM sessions AS s
WHERE
    s.session_id = :session_id::uuid
    AND s.email = :email
    AND :most > (
        SELECT count(*) FROM api_keys AS k
        WHERE k.email = :email AND k.provider IS NOT NULL AND k.revoked_at IS NULL AND k.expires_at > :now AND k.key_id <> :key_id
    )
FOR KEY SHARE OF s
ON CONFLICT (key_id) DO UPDATE SET name = excluded.name
WHERE api_keys.key_hash = excluded.key_hash;

-- name: revoke_own!
-- Revoke a key that a person has made. Parameters: key_id, email, now. Grain: key. Index: primary key.
UPDATE api_keys SET revoked_at = :now
WHERE key_id = :key_id AND email = :email AND provider IS NOT NULL AND revoked_at IS NULL AND expires_at > :now;

-- name: revoke_vouched
-- Revoke the keys that a person has made in sessions of a provider. Returns their IDs. Parameters: email, provider, now. Grain: key.
-- Index: api_keys_email.
UPDATE api_keys SET revoked_at = :now
WHERE email = :email AND provider = :provider AND revoked_at IS NULL
RETURNING key_id;
