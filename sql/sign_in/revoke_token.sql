-- Purpose: put a token on the deny-list, and drop those that have expired by themselves. Parameters: token_id, revoked_by, expires_at,
-- now. Grain: token. Index: primary key.
WITH expired AS (
    DELETE FROM revoked_tokens
    WHERE expires_at < %(now)s
)

INSERT INTO revoked_tokens (token_id, revoked_by, expires_at)
VALUES (%(token_id)s, %(revoked_by)s, %(expires_at)s)
ON CONFLICT (token_id) DO UPDATE SET expires_at = greatest(revoked_tokens.expires_at, excluded.expires_at)
