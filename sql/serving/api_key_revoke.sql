-- Purpose: revoke an API key. Parameters: key_id. Grain: key. Index: primary key. Returns its user, or no row if it was not valid.
UPDATE api_keys SET revoked_at = now()
WHERE key_id = %(key_id)s AND revoked_at IS NULL
RETURNING email
