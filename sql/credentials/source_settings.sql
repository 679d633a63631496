-- Settings of sources that administrators stored. Grain: (source, name).

-- name: put_setting!
-- Store a setting, replacing its previous value. Parameters: source, name, value or secret (the other one is null), updated_by.
INSERT INTO source_settings (source, name, value, secret, updated_by)
VALUES (:source, :name, :value, :secret, :updated_by)
ON CONFLICT (source, name) DO UPDATE SET
    value = excluded.value, secret = excluded.secret, updated_at = now(), updated_by = excluded.updated_by;

-- name: stored_settings
-- All stored settings. Index: primary key.
SELECT source, name, value, secret
FROM source_settings
ORDER BY source ASC, name ASC;

-- name: rotate_setting!
-- Replace an encrypted value, unless another one was stored meanwhile. Parameters: source, name, old, secret.
UPDATE source_settings SET secret = :secret
WHERE source = :source AND name = :name AND secret = :old;

-- name: remove_settings!
-- Forget settings of a source. Parameters: source, names.
DELETE FROM source_settings
WHERE source = :source AND name = ANY(:names);
