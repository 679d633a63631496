-- Triggers join what a statement changed in time that grows with the number of rows. A session keeps the plan of its first statement: one
-- that was made for no row or a single one compared each new row of a later statement with each old one.

ALTER FUNCTION count_changed_documents SET enable_nestloop = off;
ALTER FUNCTION count_changed_entries SET enable_nestloop = off;
ALTER FUNCTION audit_grants SET enable_nestloop = off;

-- `EXCEPT` instead of a setting, which would read whole tables: rows that differ are found by a hash or a sort. `OFFSET 0`: see 0054.
CREATE OR REPLACE FUNCTION audit_indexed_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE grant_audit AS a SET effective_at = now()
    FROM (
        SELECT f.doc_id, f.collection, f.payload FROM fresh AS f
        EXCEPT
        SELECT b.doc_id, b.collection, b.payload FROM before AS b
    ) AS f
    INNER JOIN index_collections AS c ON c.name = f.collection AND c.active
    CROSS JOIN LATERAL (SELECT o.* FROM documents AS o WHERE o.doc_id = f.doc_id OFFSET 0) AS d
    WHERE
        a.doc_id = f.doc_id AND a.effective_at IS NULL AND a.principal = ANY (d.permissions)
        AND d.state = 'live' AND f.payload = d.payload_hash;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION forget_listing_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM listing_keys AS k
    WHERE
        k.doc_id = ANY(ARRAY(
            SELECT c.doc_id
            FROM (
                SELECT f.doc_id, f.partition, f.version, f.content_hash, f.content_key, f.payload_hash, f.state FROM fresh AS f
                EXCEPT
                SELECT b.doc_id, b.partition, b.version, b.content_hash, b.content_key, b.payload_hash, b.state FROM before AS b
            ) AS c
        ));
    RETURN NULL;
END
$$;
