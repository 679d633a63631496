-- Purpose: what people are called whose addresses the caller sees on a page, as far as the caller may know: people of a directory that
-- reports the caller, too, as with suggestions (`colleagues.sql`).
-- Parameters: email (the caller's), emails. Grain: person. Index: people_email.
SELECT
    p.email,
    max(p.name) AS name
FROM people AS p
WHERE
    p.email = ANY(%(emails)s::text [])
    AND p.name <> ''
    AND p.source IN (SELECT c.source FROM people AS c WHERE c.email = %(email)s AND c.active)
GROUP BY p.email
