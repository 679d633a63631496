-- Purpose: whether an email has a session, key or agent of another account of a provider. Parameters: email, provider, subject. Grain: one
-- row. Indexes: sessions_email, api_keys_email, agents_email.
SELECT
    EXISTS (
        SELECT 1 FROM sessions
        WHERE email = %(email)s AND provider = %(provider)s AND subject <> %(subject)s
    )
    OR EXISTS (
        SELECT 1 FROM api_keys
        WHERE email = %(email)s AND provider = %(provider)s AND subject <> %(subject)s AND revoked_at IS NULL
    )
    OR EXISTS (
        SELECT 1 FROM agents
        WHERE email = %(email)s AND provider = %(provider)s AND subject <> %(subject)s
    ) AS former_holder
