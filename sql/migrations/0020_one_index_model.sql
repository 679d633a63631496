-- One model for every collection of the index: `index_entries` says what a collection holds of a document, `chunks` holds its passages,
-- and `index_collections.active` points to the collection that is searched. `documents` says what the source says. Entries and passages
-- are moved, so nothing is written to the vector index or embedded again.
DROP VIEW checked_documents;

-- What is known of the active collection joins what is known of the others. A document with passages whose points were lost is incomplete.
ALTER TABLE index_entries ADD COLUMN indexed_at timestamptz;
INSERT INTO index_entries AS e (collection, doc_id, content, payload, keywords, chunk_count, indexed_at)
SELECT a.name, d.doc_id, coalesce(d.indexed_content, ''), d.indexed_payload, d.indexed_keywords, d.chunk_count, d.indexed_at
FROM documents AS d
CROSS JOIN index_collections AS a
WHERE a.active AND (d.indexed_content IS NOT NULL OR EXISTS (SELECT FROM chunks AS c WHERE c.doc_id = d.doc_id))
ON CONFLICT (collection, doc_id) DO UPDATE SET
    content = excluded.content, payload = excluded.payload, keywords = excluded.keywords, chunk_count = excluded.chunk_count,
    indexed_at = excluded.indexed_at;

-- Keys begin with what is looked up; the collection is the same for all rows of a statement. The names depend on whether a reindex
-- exchanged the two tables of passages.
ALTER TABLE index_entries DROP CONSTRAINT index_entries_pkey, ADD PRIMARY KEY (doc_id, collection);
DROP INDEX index_entries_document;
ALTER TABLE chunks
    DROP CONSTRAINT IF EXISTS chunks_pkey,
    DROP CONSTRAINT IF EXISTS chunks_beside_pkey,
    DROP CONSTRAINT IF EXISTS chunks_doc_id_chunk_index_key,
    DROP CONSTRAINT IF EXISTS chunks_beside_doc_id_chunk_index_key,
    DROP CONSTRAINT IF EXISTS chunks_doc_id_fkey,
    DROP CONSTRAINT IF EXISTS chunks_beside_doc_id_fkey;

-- A constant default does not rewrite the table. Without an active collection no passage can be found, and the next sync writes them.
DO $$
DECLARE
    active text := (SELECT name FROM index_collections WHERE index_collections.active);
BEGIN
    IF active IS NULL THEN
        TRUNCATE chunks;
    END IF;
    EXECUTE format('ALTER TABLE chunks ADD COLUMN collection text NOT NULL DEFAULT %L', coalesce(active, ''));
    ALTER TABLE chunks ALTER COLUMN collection DROP DEFAULT;
END
$$;

-- The other table held the passages of the one collection that was being built or kept. Should another one have entries, its documents
-- are incomplete, and a reindex to it writes them from the lake.
WITH other AS (
    SELECT c.name
    FROM index_collections AS c
    WHERE NOT c.active AND EXISTS (SELECT FROM index_entries AS e WHERE e.collection = c.name)
    ORDER BY c.building DESC, c.replaced_at DESC NULLS LAST, c.name ASC
    LIMIT 1
),

incomplete AS (
    UPDATE index_entries AS e SET content = ''
    FROM index_collections AS c
    WHERE e.collection = c.name AND NOT c.active AND c.name NOT IN (SELECT o.name FROM other AS o)
)

INSERT INTO chunks (
    collection, chunk_id, doc_id, chunk_index, chunk_text, text_hash, start_char, end_char, tokens, section_path, anchor, page_start,
    page_end, is_table, sheet, row_start, row_end, language, places, name_words, sketch
)
SELECT
    e.collection, b.chunk_id, b.doc_id, b.chunk_index, b.chunk_text, b.text_hash, b.start_char, b.end_char, b.tokens, b.section_path,
    b.anchor, b.page_start, b.page_end, b.is_table, b.sheet, b.row_start, b.row_end, b.language, b.places, b.name_words, b.sketch
FROM chunks_beside AS b
INNER JOIN index_entries AS e ON e.doc_id = b.doc_id
INNER JOIN other AS o ON o.name = e.collection;

DROP TABLE chunks_beside;
ALTER INDEX IF EXISTS chunks_beside_tsv RENAME TO chunks_tsv;
ALTER TABLE chunks
    ADD PRIMARY KEY (chunk_id, collection),
    ADD UNIQUE (doc_id, collection, chunk_index),
    ADD FOREIGN KEY (doc_id, collection) REFERENCES index_entries (doc_id, collection) ON DELETE CASCADE;

-- A grant takes effect when the active collection holds it.
CREATE OR REPLACE FUNCTION audit_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO grant_audit (source, doc_id, principal, change, effective_at)
    SELECT c.source, c.doc_id, g.principal, 'added', NULL::timestamptz
    FROM (
        SELECT f.source, f.doc_id, f.permissions AS now_held,
            CASE WHEN b.state = 'live' THEN b.permissions ELSE '{}' END AS held
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE f.state = 'live' AND (b.state <> 'live' OR f.permissions <> b.permissions)
    ) AS c CROSS JOIN LATERAL unnest(c.now_held) AS g (principal)
    WHERE g.principal <> ALL (c.held)
    UNION ALL
    SELECT c.source, c.doc_id, g.principal, 'revoked', now()
    FROM (
        SELECT f.source, f.doc_id, b.permissions AS held,
            CASE WHEN f.state = 'live' THEN f.permissions ELSE '{}' END AS now_held
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE b.state = 'live' AND (f.state <> 'live' OR f.permissions <> b.permissions)
    ) AS c CROSS JOIN LATERAL unnest(c.held) AS g (principal)
    WHERE g.principal <> ALL (c.now_held);
    RETURN NULL;
END
$$;

CREATE FUNCTION audit_indexed_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE grant_audit AS a SET effective_at = now()
    FROM fresh AS f
    INNER JOIN before AS b ON b.doc_id = f.doc_id AND b.collection = f.collection
    INNER JOIN index_collections AS c ON c.name = f.collection AND c.active
    INNER JOIN documents AS d ON d.doc_id = f.doc_id
    WHERE
        a.doc_id = f.doc_id AND a.effective_at IS NULL AND a.principal = ANY (d.permissions)
        AND d.state = 'live' AND f.payload = d.payload_hash AND b.payload IS DISTINCT FROM f.payload;
    RETURN NULL;
END
$$;
CREATE TRIGGER index_entries_grants AFTER UPDATE ON index_entries
REFERENCING OLD TABLE AS before NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION audit_indexed_grants();

CREATE FUNCTION audit_promoted_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE grant_audit AS a SET effective_at = now()
    FROM index_entries AS e
    INNER JOIN documents AS d ON d.doc_id = e.doc_id
    WHERE
        e.collection = NEW.name AND a.doc_id = e.doc_id AND a.effective_at IS NULL AND a.principal = ANY (d.permissions)
        AND d.state = 'live' AND e.payload = d.payload_hash;
    RETURN NULL;
END
$$;
CREATE TRIGGER index_collections_promoted AFTER UPDATE ON index_collections FOR EACH ROW
WHEN (new.active AND NOT old.active) EXECUTE FUNCTION audit_promoted_grants();

-- Uploads of a person, to count those that wait to be indexed.
DROP INDEX documents_waiting;
CREATE INDEX documents_waiting ON documents (owner) WHERE source = 'upload' AND state = 'live';
ALTER TABLE documents
    DROP COLUMN indexed_content,
    DROP COLUMN indexed_payload,
    DROP COLUMN indexed_keywords,
    DROP COLUMN indexed_at,
    DROP COLUMN chunk_count;
-- The acl_checked_at that the payloads in the index have, at the oldest.
ALTER TABLE partitions RENAME COLUMN acl_painted_at TO acl_indexed_at;

-- As in 0018, without what the index holds. Every read for a person goes through it. Grain: document.
CREATE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source = 'upload' THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at,
    ARRAY(SELECT g.email FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition) AS departed
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE NOT EXISTS (SELECT 1 FROM hidden_documents AS e WHERE e.doc_id = d.doc_id);

-- What the collection that is searched holds. Grain: document.
CREATE VIEW active_entries AS
SELECT * FROM index_entries WHERE collection = (SELECT c.name FROM index_collections AS c WHERE c.active);

-- Its passages. Grain: chunk.
CREATE VIEW active_chunks AS
SELECT * FROM chunks WHERE collection = (SELECT c.name FROM index_collections AS c WHERE c.active);

ANALYZE index_entries, chunks;
