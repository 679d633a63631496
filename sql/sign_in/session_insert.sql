-- Purpose: begin a session, and drop those that have expired. Nothing is stored if the passkey that begins it was removed, or if the
-- account has ended: `account_lock` before it waits for an off-boarding that is under way, or makes it wait.
-- Parameters: session_id, secret_hash, email, provider, subject, passkey_id (null: another way), browser, groups, groups_omitted, secrets
-- (encrypted), administrator (its role), now, expires_at. Grain: session. Indexes: primary keys, sessions_expires, people_email.
WITH expired AS (
    DELETE FROM sessions
    WHERE session_id IN (
        SELECT s.session_id FROM sessions AS s
        WHERE s.expires_at < %(now)s
        FOR UPDATE SKIP LOCKED -- what is being ended, perhaps with its account
    )
),

-- with this one, a person has the fifty sessions that were used last
superfluous AS (
    DELETE FROM sessions
    WHERE session_id IN (
        SELECT s.session_id FROM sessions AS s
        WHERE s.email = %(email)s
        ORDER BY s.seen_at DESC
        OFFSET 49
    )
)

INSERT INTO sessions (
    session_id, secret_hash, email, provider, subject, browser, groups, groups_omitted, groups_at, secrets, administrator, refreshed_at,
    created_at, seen_at, expires_at
)
SELECT
    %(session_id)s::uuid,
    %(secret_hash)s,
    %(email)s,
    %(provider)s,
    %(subject)s,
    %(browser)s,
    %(groups)s,
    %(groups_omitted)s,
    %(now)s AS groups_at,
    %(secrets)s,
    %(administrator)s,
    %(now)s AS refreshed_at,
    %(now)s AS created_at,
    %(now)s AS seen_at,
    %(expires_at)s
WHERE
    CASE
        WHEN EXISTS (SELECT 1 FROM people AS p WHERE p.email = %(email)s AND (NOT p.active OR p.tokens_since > %(now)s)) THEN FALSE
        WHEN %(passkey_id)s::uuid IS NULL THEN TRUE
        ELSE EXISTS (SELECT 1 FROM passkeys AS k WHERE k.passkey_id = %(passkey_id)s::uuid FOR KEY SHARE)
    END
ON CONFLICT (session_id) DO UPDATE SET seen_at = excluded.seen_at
