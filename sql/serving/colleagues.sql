-- Purpose: people whose address or name begins with a text, as far as the caller may know them: active people of the caller's domain whom
-- a directory reports that reports the caller, too, and if the domain is the company's (`accounts`), those who are signed in.
-- Parameters: email (the caller's), domain, beginning (lower case), following (the first text after all that begin so), accounts, most.
-- Grain: person. Indexes: people_email, people_email_beginning, people_name_beginning, sessions_email_beginning.
WITH matching AS (
    SELECT
        p.email,
        p.name
    FROM people AS p
    WHERE
        (
            (p.email COLLATE "C" >= %(beginning)s AND p.email COLLATE "C" < %(following)s)
            OR (lower(p.name) COLLATE "C" >= %(beginning)s AND lower(p.name) COLLATE "C" < %(following)s)
        )
        AND p.active
        AND p.source IN (SELECT c.source FROM people AS c WHERE c.email = %(email)s AND c.active)
    UNION ALL
    SELECT
        s.email,
        NULL AS name
    FROM sessions AS s
    WHERE
        %(accounts)s
        AND s.email COLLATE "C" >= %(beginning)s
        AND s.email COLLATE "C" < %(following)s
        AND s.expires_at > now()
)

SELECT
    m.email,
    max(m.name) AS name
FROM matching AS m
WHERE
    split_part(m.email, '@', 2) = %(domain)s
    AND m.email <> %(email)s
    AND NOT EXISTS (SELECT 1 FROM people AS g WHERE g.email = m.email AND NOT g.active)
GROUP BY m.email
ORDER BY m.email
LIMIT %(most)s
