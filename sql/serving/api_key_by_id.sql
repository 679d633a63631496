-- Purpose: one API key, valid or not. Parameters: key_id. Grain: key. Index: primary key.
SELECT
    key_hash,
    email,
    groups,
    admin,
    scim,
    expires_at,
    revoked_at
FROM api_keys
WHERE key_id = %(key_id)s
