-- API keys, without their hashes. Grain: key, oldest first.
SELECT
    key_id,
    email,
    name,
    groups,
    admin,
    scim,
    scopes,
    created_at,
    used_at,
    expires_at,
    revoked_at
FROM api_keys
ORDER BY created_at, key_id;
