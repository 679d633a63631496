-- What belongs to a table, so that a copy of it can take its place. Read from the catalogue. Parameters: name.

-- name: columns_of
-- Columns that are stored as given, in order. Grain: column.
SELECT quote_ident(attname) AS name
FROM pg_attribute
WHERE attrelid = :name::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum;

-- name: indexes_of
-- Indexes; `constraint_kind` is p or u where a constraint of the same name rests on one. Grain: index.
SELECT i.relname AS name, pg_get_indexdef(x.indexrelid) AS definition, x.indisunique AS is_unique, c.contype AS constraint_kind
FROM pg_index AS x
INNER JOIN pg_class AS i ON x.indexrelid = i.oid
LEFT JOIN pg_constraint AS c ON x.indexrelid = c.conindid AND x.indrelid = c.conrelid AND c.contype IN ('p', 'u')
WHERE x.indrelid = :name::regclass
ORDER BY i.relname;

-- name: foreign_keys_of
-- Foreign keys of the table and to it; `owner` is the table that holds one. Grain: constraint.
SELECT conname AS name, conrelid::regclass::text AS owner, pg_get_constraintdef(oid) AS definition
FROM pg_constraint
WHERE contype = 'f' AND :name::regclass IN (conrelid, confrelid)
ORDER BY conrelid, conname;

-- name: triggers_of
-- Grain: trigger.
SELECT pg_get_triggerdef(oid) AS definition FROM pg_trigger WHERE tgrelid = :name::regclass AND NOT tgisinternal ORDER BY tgname;

-- name: views_of
-- Views that read the table. Grain: view.
SELECT DISTINCT v.oid::regclass::text AS name, pg_get_viewdef(v.oid) AS definition
FROM pg_depend AS d
INNER JOIN pg_rewrite AS r ON d.objid = r.oid
INNER JOIN pg_class AS v ON r.ev_class = v.oid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = :name::regclass AND v.relkind = 'v';

-- name: grants_of
-- What other roles may do with a table or view; the owner's own rights are among them. Grain: privilege.
SELECT a.privilege_type AS privilege, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
FROM pg_class AS c
CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.oid = :name::regclass;
