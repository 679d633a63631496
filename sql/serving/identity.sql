-- Purpose: what sources say of a person: memberships, with the time when they were read, and the account's state (no principal).
-- Parameters: email. Grain: (source, principal), or source. Indexes: directory_email, people_email.
SELECT
    d.source,
    d.principal,
    d.through,
    coalesce(d.read_at, s.directory_at) AS read_at,
    TRUE AS active
FROM directory AS d
LEFT JOIN source_states AS s ON d.source = s.source
WHERE d.email = %(email)s
UNION ALL
SELECT
    p.source,
    NULL AS principal,
    NULL AS through,
    p.updated_at AS read_at,
    p.active
FROM people AS p
WHERE p.email = %(email)s
ORDER BY principal, source
