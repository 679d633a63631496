-- Documents that are in the registry as their source listed them last, by a key of all that decides what the source says of them: a later
-- listing compares keys alone. A document loses its key when anything else changes its row, and is compared in full again. Grain: document.
CREATE TABLE listing_keys (
    doc_id uuid PRIMARY KEY REFERENCES documents (doc_id) ON DELETE CASCADE,
    source text NOT NULL,
    partition text NOT NULL,
    key bigint NOT NULL
);
CREATE INDEX listing_keys_partition ON listing_keys (source, partition) INCLUDE (key);

CREATE FUNCTION forget_listing_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM listing_keys AS k USING before AS b INNER JOIN fresh AS f ON f.doc_id = b.doc_id
    WHERE
        k.doc_id = b.doc_id
        AND (b.partition, b.version, b.content_hash, b.content_key, b.payload_hash, b.state)
        IS DISTINCT FROM (f.partition, f.version, f.content_hash, f.content_key, f.payload_hash, f.state);
    RETURN NULL;
END
$$;

CREATE TRIGGER documents_listed_anew AFTER UPDATE ON documents
REFERENCING OLD TABLE AS before NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION forget_listing_keys();
