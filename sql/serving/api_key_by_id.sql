-- Purpose: one API key, valid or not, and note at most once a minute that a valid one is used. The groups of a key that its person made
-- are those that the provider last reported in a session. Parameters: key_id, key_hash, now, seen_before (a minute ago; null: note nothing), fresh_since
-- (older groups grant nothing), idle_since (a session that nobody has used since is over). Grain: key. Indexes: primary key, sessions_email.
WITH seen AS (
    UPDATE api_keys SET used_at = %(now)s
    WHERE
        key_id = %(key_id)s
        AND key_hash = %(key_hash)s
        AND revoked_at IS NULL
        AND coalesce(expires_at > %(now)s, TRUE)
        AND coalesce(used_at, '-infinity') < %(seen_before)s::timestamptz
)

SELECT
    k.key_hash,
    k.email,
    CASE WHEN k.provider IS NULL THEN k.groups ELSE coalesce(s.groups, ARRAY[]::text []) END AS groups,
    coalesce(s.groups_omitted, FALSE) AS groups_omitted,
    k.admin,
    k.scim,
    k.scopes,
    k.provider,
    k.expires_at,
    k.revoked_at
FROM api_keys AS k
LEFT JOIN LATERAL (
    SELECT
        one.groups,
        one.groups_omitted
    FROM sessions AS one
    WHERE
        one.email = k.email
        AND one.provider = k.provider
        AND one.expires_at > %(now)s
        AND one.groups_at >= %(fresh_since)s
        AND one.seen_at >= %(idle_since)s
    ORDER BY one.groups_at DESC
    LIMIT 1
) AS s ON TRUE
WHERE k.key_id = %(key_id)s
