-- People and groups, as Google's directory and the file of groups report them.

-- name: read_groups
-- The stored members of groups. Parameters: source, groups text[] (principals). Grain: (email, principal). Index: directory_principal.
SELECT d.email, d.principal, d.through, coalesce(d.read_at, s.directory_at) AS read_at
FROM directory AS d
INNER JOIN source_states AS s ON d.source = s.source
WHERE d.source = :source AND d.principal = ANY(:groups::text []) AND s.directory_at IS NOT NULL;

-- name: save_memberships!
-- Replace a source's memberships. Parameters: source, rows jsonb ([[email, principal, through, read_at], …]). Grain: (email, principal).
WITH entries AS (
    SELECT
        e.value ->> 0 AS email,
        e.value ->> 1 AS principal,
        e.value ->> 2 AS through,
        (e.value ->> 3)::timestamptz AS read_at
    FROM jsonb_array_elements(:rows::jsonb) AS e
),

gone AS (
    DELETE FROM directory AS d
    WHERE
        d.source = :source
        AND NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.email = d.email AND e.principal = d.principal)
)

INSERT INTO directory AS d (source, email, principal, through, read_at)
SELECT :source, e.email, e.principal, e.through, e.read_at FROM entries AS e
ON CONFLICT (source, email, principal) DO UPDATE SET through = excluded.through, read_at = excluded.read_at
WHERE (d.through, d.read_at) IS DISTINCT FROM (excluded.through, excluded.read_at);

-- name: note!
-- Save what is to be said of a source of people, without changing its age. Parameters: source, note or null. Grain: source.
INSERT INTO source_states (source, directory_note) VALUES (:source, :note)
ON CONFLICT (source) DO UPDATE SET directory_note = excluded.directory_note;

-- name: date!
-- Record that a source of people was read at a time. Parameters: source, read_at. Grain: source.
INSERT INTO source_states (source, directory_at) VALUES (:source, :read_at)
ON CONFLICT (source) DO UPDATE SET directory_at = excluded.directory_at;

-- name: known_people
-- The people of a source, as it last reported them. Parameters: source. Grain: person. Index: primary key.
SELECT email, external_id, active, moved_at FROM people WHERE source = :source;

-- name: save_people!
-- Save people as a source reports them; tokens that were made for another account of the address end. The rows of those who are
-- unchanged are not written. Parameters: source, rows jsonb (email, id, name, active). Grain: person.
INSERT INTO people AS p (source, email, external_id, name, active)
SELECT :source, r.email, r.id, r.name, r.active
FROM jsonb_to_recordset(:rows::jsonb) AS r (email text, id text, name text, active boolean)
WHERE
    NOT EXISTS (
        SELECT 1 FROM people AS q
        WHERE
            q.source = :source AND q.email = r.email
            AND (q.external_id, q.name, q.active) IS NOT DISTINCT FROM (r.id, r.name, r.active)
    )
ON CONFLICT (source, email) DO UPDATE SET
    external_id = excluded.external_id, name = excluded.name, active = excluded.active, updated_at = now(),
    tokens_since = CASE WHEN p.external_id <> excluded.external_id THEN now() ELSE p.tokens_since END;

-- name: move!
-- Record that documents are taken from addresses. Parameters: source, emails text[]. Grain: person. Index: primary key.
UPDATE people SET moved_at = now() WHERE source = :source AND email = ANY(:emails::text []);

-- name: moved
-- Addresses that documents were taken from, and when last. Parameters: source. Grain: person. Index: people_moved.
SELECT email, max(moved_at) AS moved_at FROM people WHERE source = :source AND moved_at IS NOT NULL GROUP BY email;

-- name: deactivate!
-- Make people inactive whom a source no longer reports. Parameters: source, emails text[]. Grain: person.
UPDATE people SET active = FALSE, updated_at = now()
WHERE source = :source AND email = ANY(:emails::text []) AND active;
