-- Purpose: store a new API key's hash. Parameters: key_id, key_hash, email, groups, admin, scim, expires_at. Grain: key.
INSERT INTO api_keys (key_id, key_hash, email, groups, admin, scim, expires_at)
VALUES (%(key_id)s, %(key_hash)s, %(email)s, %(groups)s, %(admin)s, %(scim)s, %(expires_at)s)
