-- People and groups that SCIM clients provision, and what is derived of them: `people` and `directory`, source `scim`.

-- name: lock
-- Make changes one after another, so that no two users share an address. Held until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('concordance.scim'));

-- name: heard!
-- Record that a SCIM client was heard: its groups count as current for CONCORDANCE_ACL_MAX_AGE.
INSERT INTO source_states (source, directory_at) VALUES ('scim', now())
ON CONFLICT (source) DO UPDATE SET directory_at = now();

-- name: users
-- A page of users; a list of values that is null does not filter. Parameters: ids, user_names (lower case), external_ids, emails,
-- active, skip, most. Grain: user, oldest first. Indexes: primary key, scim_users_name, scim_users_external, scim_users_emails.
SELECT
    u.user_id::text AS id,
    u.emails,
    u.active,
    u.resource,
    u.created_at,
    u.modified_at
FROM scim_users AS u
WHERE
    (:ids::uuid [] IS NULL OR u.user_id = ANY(:ids::uuid []))
    AND (:user_names::text [] IS NULL OR lower(u.user_name) = ANY(:user_names::text []))
    AND (:external_ids::text [] IS NULL OR u.external_id = ANY(:external_ids::text []))
    AND (:emails::text [] IS NULL OR u.emails && :emails::text [])
    AND (:active::boolean IS NULL OR u.active = :active::boolean)
ORDER BY u.created_at, u.user_id
LIMIT :most OFFSET :skip;

-- name: count_users
-- The number of all users that `users` pages through. Parameters: as there.
SELECT count(*) AS total
FROM scim_users AS u
WHERE
    (:ids::uuid [] IS NULL OR u.user_id = ANY(:ids::uuid []))
    AND (:user_names::text [] IS NULL OR lower(u.user_name) = ANY(:user_names::text []))
    AND (:external_ids::text [] IS NULL OR u.external_id = ANY(:external_ids::text []))
    AND (:emails::text [] IS NULL OR u.emails && :emails::text [])
    AND (:active::boolean IS NULL OR u.active = :active::boolean);

-- name: taken
-- A user other than user_id with this name or one of these addresses. Parameters: user_id or null, user_name (lower case), emails.
SELECT u.user_id::text AS id
FROM scim_users AS u
WHERE
    (u.user_id = :user_id::uuid) IS NOT TRUE
    AND (lower(u.user_name) = :user_name::text OR u.emails && :emails::text [])
ORDER BY u.user_id
LIMIT 1;

-- name: insert_user
-- Parameters: user_name, external_id, emails, active, resource (json). Grain: user.
INSERT INTO scim_users (user_name, external_id, emails, active, resource)
VALUES (:user_name, :external_id, :emails, :active, :resource::jsonb)
RETURNING user_id::text AS id;

-- name: update_user!
-- Parameters: user_id, user_name, external_id, emails, active, resource (json). Grain: user. Index: primary key.
UPDATE scim_users SET
    user_name = :user_name, external_id = :external_id, emails = :emails, active = :active, resource = :resource::jsonb,
    modified_at = now()
WHERE user_id = :user_id::uuid;

-- name: delete_user!
-- Index: primary key; memberships follow.
DELETE FROM scim_users WHERE user_id = :user_id::uuid;

-- name: put_people!
-- Record people as this user's state says; tokens that were made for another user of an address end. Parameters: emails, external_id (the
-- user's id), name, active. Grain: email.
INSERT INTO people AS p (source, email, external_id, name, active)
SELECT 'scim', e.email, :external_id::text, :name::text, :active::boolean
FROM unnest(:emails::text []) AS e (email)
ON CONFLICT (source, email) DO UPDATE SET
    external_id = excluded.external_id, name = excluded.name, active = excluded.active, updated_at = now(),
    tokens_since = CASE WHEN p.external_id <> excluded.external_id THEN now() ELSE p.tokens_since END;

-- name: end_people!
-- Report addresses as inactive that no user has any more; the rows stay, so that tokens made earlier are refused. Index: primary key.
UPDATE people SET active = FALSE, updated_at = now()
WHERE source = 'scim' AND email = ANY(:emails::text []) AND active;

-- name: groups
-- A page of groups; a list of values that is null does not filter. Parameters: ids, names (lower case), external_ids, members (ids of
-- direct members), skip, most. Grain: group, oldest first. Indexes: primary key, scim_groups_name, scim_groups_external.
SELECT
    g.group_id::text AS id,
    g.display_name,
    g.external_id,
    g.principal,
    g.created_at,
    g.modified_at
FROM scim_groups AS g
WHERE
    (:ids::uuid [] IS NULL OR g.group_id = ANY(:ids::uuid []))
    AND (:names::text [] IS NULL OR lower(g.display_name) = ANY(:names::text []))
    AND (:external_ids::text [] IS NULL OR g.external_id = ANY(:external_ids::text []))
    AND (
        :members::uuid [] IS NULL
        OR EXISTS (
            SELECT 1 FROM scim_members AS m
            WHERE m.group_id = g.group_id AND (m.user_id = ANY(:members::uuid []) OR m.subgroup_id = ANY(:members::uuid []))
        )
    )
ORDER BY g.created_at, g.group_id
LIMIT :most OFFSET :skip;

-- name: count_groups
-- The number of all groups that `groups` pages through. Parameters: as there.
SELECT count(*) AS total
FROM scim_groups AS g
WHERE
    (:ids::uuid [] IS NULL OR g.group_id = ANY(:ids::uuid []))
    AND (:names::text [] IS NULL OR lower(g.display_name) = ANY(:names::text []))
    AND (:external_ids::text [] IS NULL OR g.external_id = ANY(:external_ids::text []))
    AND (
        :members::uuid [] IS NULL
        OR EXISTS (
            SELECT 1 FROM scim_members AS m
            WHERE m.group_id = g.group_id AND (m.user_id = ANY(:members::uuid []) OR m.subgroup_id = ANY(:members::uuid []))
        )
    );

-- name: members
-- Direct members of groups. Parameters: group_ids. Grain: (group, member). Index: unique ones of scim_members.
SELECT
    m.group_id::text AS group_id,
    coalesce(m.user_id, m.subgroup_id)::text AS id,
    m.subgroup_id IS NOT NULL AS subgroup
FROM scim_members AS m
WHERE m.group_id = ANY(:group_ids::uuid [])
ORDER BY m.group_id, id;

-- name: members_among
-- Those of some ids that are direct members of a group. Parameters: group_id, ids. Grain: member. Index: unique ones of scim_members.
SELECT coalesce(m.user_id, m.subgroup_id)::text AS id
FROM scim_members AS m
WHERE m.group_id = :group_id::uuid AND (m.user_id = ANY(:ids::uuid []) OR m.subgroup_id = ANY(:ids::uuid []));

-- name: principal_taken
-- A group other than group_id with this principal. Parameters: group_id or null, principal. Index: unique principal.
SELECT g.group_id::text AS id
FROM scim_groups AS g
WHERE g.principal = :principal AND (g.group_id = :group_id::uuid) IS NOT TRUE;

-- name: insert_group
-- Parameters: display_name, external_id, principal. Grain: group.
INSERT INTO scim_groups (display_name, external_id, principal) VALUES (:display_name, :external_id, :principal)
RETURNING group_id::text AS id;

-- name: update_group!
-- Parameters: group_id, display_name, external_id, principal. Grain: group. Index: primary key.
UPDATE scim_groups SET
    display_name = :display_name, external_id = :external_id, principal = :principal, modified_at = now()
WHERE group_id = :group_id::uuid;

-- name: delete_group!
-- Index: primary key; memberships follow.
DELETE FROM scim_groups WHERE group_id = :group_id::uuid;

-- name: known
-- Which of these ids are users, and which groups. Parameters: ids. Grain: member. Indexes: primary keys.
SELECT
    u.user_id::text AS id,
    FALSE AS subgroup
FROM scim_users AS u
WHERE u.user_id = ANY(:ids::uuid [])
UNION ALL
SELECT
    g.group_id::text AS id,
    TRUE AS subgroup
FROM scim_groups AS g
WHERE g.group_id = ANY(:ids::uuid []);

-- name: add_members!
-- Parameters: group_id, user_ids, subgroup_ids. Grain: (group, member).
INSERT INTO scim_members (group_id, user_id, subgroup_id)
SELECT :group_id::uuid, u.id, NULL FROM unnest(:user_ids::uuid []) AS u (id)
UNION ALL
SELECT :group_id::uuid, NULL, g.id FROM unnest(:subgroup_ids::uuid []) AS g (id)
ON CONFLICT DO NOTHING;

-- name: remove_members!
-- Parameters: group_id, ids. Grain: (group, member).
DELETE FROM scim_members
WHERE group_id = :group_id::uuid AND (user_id = ANY(:ids::uuid []) OR subgroup_id = ANY(:ids::uuid []));

-- name: users_within
-- Users in these groups, directly or in groups within them. Parameters: group_ids. Grain: user.
WITH RECURSIVE inner_groups AS (
    SELECT w.id FROM unnest(:group_ids::uuid []) AS w (id)
    UNION
    SELECT m.subgroup_id AS id
    FROM inner_groups AS i
    INNER JOIN scim_members AS m ON i.id = m.group_id
    WHERE m.subgroup_id IS NOT NULL
)

SELECT DISTINCT m.user_id::text AS id
FROM inner_groups AS i
INNER JOIN scim_members AS m ON i.id = m.group_id
WHERE m.user_id IS NOT NULL;

-- name: refresh!
-- Make the directory of these users what their groups say, directly and through groups within groups. Parameters: user_ids, emails
-- (former addresses of theirs). Grain: (email, principal). Index: primary key of directory.
WITH RECURSIVE joined AS (
    SELECT
        m.user_id,
        m.group_id
    FROM scim_members AS m
    WHERE m.user_id = ANY(:user_ids::uuid [])
    UNION
    SELECT
        j.user_id,
        m.group_id
    FROM joined AS j
    INNER JOIN scim_members AS m ON j.group_id = m.subgroup_id
),

addresses AS (
    SELECT
        u.user_id,
        u.active,
        e.email
    FROM scim_users AS u, unnest(u.emails) AS e (email)
    WHERE u.user_id = ANY(:user_ids::uuid [])
),

wanted AS (
    SELECT DISTINCT
        a.email,
        g.principal
    FROM joined AS j
    INNER JOIN addresses AS a ON j.user_id = a.user_id
    INNER JOIN scim_groups AS g ON j.group_id = g.group_id
    WHERE a.active
),

gone AS (
    DELETE FROM directory AS d
    WHERE
        d.source = 'scim'
        AND (d.email = ANY(:emails::text []) OR d.email IN (SELECT a.email FROM addresses AS a))
        AND NOT EXISTS (SELECT 1 FROM wanted AS w WHERE w.email = d.email AND w.principal = d.principal)
)

INSERT INTO directory (source, email, principal)
SELECT 'scim', w.email, w.principal FROM wanted AS w
ON CONFLICT DO NOTHING;
