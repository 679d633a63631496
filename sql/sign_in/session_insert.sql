-- Purpose: begin a session, and drop those that have expired. Parameters: session_id, secret_hash, email, provider, subject, browser,
-- groups, groups_omitted, secrets (encrypted), administrator (its role), now, expires_at. Grain: session. Indexes: primary key,
-- sessions_expires.
WITH expired AS (
    DELETE FROM sessions
    WHERE expires_at < %(now)s
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
VALUES (
    %(session_id)s::uuid, %(secret_hash)s, %(email)s, %(provider)s, %(subject)s, %(browser)s, %(groups)s, %(groups_omitted)s, %(now)s,
    %(secrets)s, %(administrator)s, %(now)s, %(now)s, %(now)s, %(expires_at)s
)
