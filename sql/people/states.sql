-- The state of the sources of people.

-- name: states
-- When each source of groups was last read, and what it notes. Grain: source that was ever tried. Index: primary key.
SELECT
    s.source,
    s.directory_at,
    s.directory_note AS note,
    (SELECT count(DISTINCT d.email) FROM directory AS d WHERE d.source = s.source) AS members,
    (SELECT count(DISTINCT d.principal) FROM directory AS d WHERE d.source = s.source AND d.principal LIKE 'group:%') AS groups
FROM source_states AS s
WHERE s.directory_at IS NOT NULL OR s.directory_note IS NOT NULL
ORDER BY s.source;
