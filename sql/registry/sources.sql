-- What statements know of sources. Grain: source.

-- name: declare!
-- Record declarations; one that is recorded alike is not written again. Parameters: rows (json list of objects).
INSERT INTO sources AS s (source, private_folders, named_by_path, own_permissions, stored_size)
SELECT r.source, r.private_folders, r.named_by_path, r.own_permissions, r.stored_size
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    source text, private_folders boolean, named_by_path boolean, own_permissions boolean, stored_size boolean
)
ON CONFLICT (source) DO UPDATE SET
    private_folders = excluded.private_folders, named_by_path = excluded.named_by_path, own_permissions = excluded.own_permissions,
    stored_size = excluded.stored_size
WHERE
    (s.private_folders, s.named_by_path, s.own_permissions, s.stored_size)
    IS DISTINCT FROM (excluded.private_folders, excluded.named_by_path, excluded.own_permissions, excluded.stored_size);

-- name: keep!
-- Remove the declarations of all other sources. Parameters: sources.
DELETE FROM sources WHERE source <> ALL(:sources::text []);
