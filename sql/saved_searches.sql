-- Searches that people keep by name. Grain: search. A person's exist for nobody else.

-- name: saved_of
-- The searches that a person has saved, by name. Parameters: email. Grain: search. Index: email and name.
SELECT
    search_id::text AS search_id,
    name,
    query,
    filters,
    saved_at
FROM saved_searches
WHERE email = :email
ORDER BY name
LIMIT 100;

-- name: save^
-- Save a search, in place of one with the same name. Nothing is returned if the person has `most` others. Parameters: search_id,
-- email, name, query, filters, now, most. Grain: search. Index: email and name.
INSERT INTO saved_searches (search_id, email, name, query, filters, saved_at)
SELECT
    :search_id::uuid,
    :email,
    :name,
    :query,
    :filters::jsonb,
    :now
WHERE
    :most > (
        SELECT count(*) FROM saved_searches AS s
        WHERE s.email = :email AND s.name != :name
    )
ON CONFLICT (email, name) DO UPDATE SET query = excluded.query, filters = excluded.filters, saved_at = excluded.saved_at
RETURNING search_id::text AS search_id, name, query, filters, saved_at;

-- name: remove!
-- Remove a search that a person saved. Parameters: search_id, email. Grain: search. Index: primary key.
DELETE FROM saved_searches
WHERE search_id = :search_id::uuid AND email = :email;
