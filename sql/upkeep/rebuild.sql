-- Definitions of a table's columns, indexes, constraints and grants from the catalogue, to replace it by a copy. Parameters: name.

-- name: columns_of
-- Columns that are not generated, in order. Grain: column.
SELECT quote_ident(attname) AS name
FROM pg_attribute
WHERE attrelid = :name::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum;

-- name: key_of
-- Columns of the primary key, in order. Grain: column.
SELECT quote_ident(a.attname) AS name
FROM pg_index AS x
CROSS JOIN unnest(x.indkey) WITH ORDINALITY AS k (attnum, position)
INNER JOIN pg_attribute AS a ON x.indrelid = a.attrelid AND k.attnum = a.attnum
WHERE x.indrelid = :name::text::regclass AND x.indisprimary
ORDER BY k.position;

-- name: indexes_of
-- Indexes; `constraint_kind` is p or u if the index belongs to a constraint of the same name. Grain: index.
SELECT i.relname::text AS name, pg_get_indexdef(x.indexrelid) AS definition, x.indisunique AS is_unique, c.contype::text AS constraint_kind
FROM pg_index AS x
INNER JOIN pg_class AS i ON x.indexrelid = i.oid
LEFT JOIN pg_constraint AS c ON x.indexrelid = c.conindid AND x.indrelid = c.conrelid AND c.contype IN ('p', 'u')
WHERE x.indrelid = :name::text::regclass
ORDER BY i.relname;

-- name: foreign_keys_of
-- Foreign keys from and to the table; `owner` is the table with the constraint, `target` the other one. Grain: constraint.
SELECT conname::text AS name, conrelid::regclass::text AS owner, confrelid::regclass::text AS target, pg_get_constraintdef(oid) AS definition
FROM pg_constraint
WHERE contype = 'f' AND :name::text::regclass IN (conrelid, confrelid)
ORDER BY conrelid, conname;

-- name: triggers_of
-- Definitions of the triggers that users created. Grain: trigger.
SELECT pg_get_triggerdef(oid) AS definition FROM pg_trigger WHERE tgrelid = :name::text::regclass AND NOT tgisinternal ORDER BY tgname;

-- name: views_of
-- Views that read the table. Grain: view.
SELECT DISTINCT v.oid::regclass::text AS name, pg_get_viewdef(v.oid) AS definition
FROM pg_depend AS d
INNER JOIN pg_rewrite AS r ON d.objid = r.oid
INNER JOIN pg_class AS v ON r.ev_class = v.oid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = :name::text::regclass AND v.relkind = 'v';

-- name: grants_of
-- Privileges on a table or view, including the owner's. Grain: privilege.
SELECT a.privilege_type AS privilege, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
FROM pg_class AS c
CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.oid = :name::text::regclass;
