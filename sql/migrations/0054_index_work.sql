-- What differs is kept beside what is wanted and stored, so that a sync without changes reads nothing of the rest, and counts are kept
-- by the statements that change them.

-- Documents whose index entries may differ from what is wanted; the others do not. Written by triggers, and by a pass over all documents
-- when the wanted version changes (`index_passes`). `marked` rises with every change, so that a document that changes while it is being
-- compared keeps its row. Grain: document.
CREATE SEQUENCE index_work_marks;
CREATE TABLE index_work (
    doc_id uuid PRIMARY KEY REFERENCES documents (doc_id) ON DELETE CASCADE,
    source text NOT NULL,
    marked bigint NOT NULL DEFAULT nextval('index_work_marks')
);
CREATE INDEX index_work_source ON index_work (source);

-- The versions for which `index_work` is complete. wanted: a hash of everything that decides whether an entry is as wanted besides the
-- document. after: the source id up to which documents have been compared; null once all have been. Grain: (source, collection).
CREATE TABLE index_passes (
    source text NOT NULL,
    collection text NOT NULL REFERENCES index_collections (name) ON DELETE CASCADE,
    wanted text NOT NULL,
    parser text NOT NULL,
    after text,
    PRIMARY KEY (source, collection)
);

-- Documents by source, partition and state: the sum of the rows. Statements add rows and never change one, so that no two wait for each
-- other; each sync merges those of its source. Grain: change.
CREATE TABLE document_counts (
    source text NOT NULL,
    partition text NOT NULL,
    state text NOT NULL,
    documents bigint NOT NULL
);
CREATE INDEX document_counts_partition ON document_counts (source, partition, state);

-- Passages by collection, source and partition, whatever the state of their documents; likewise. Grain: change.
CREATE TABLE passage_counts (
    collection text NOT NULL,
    source text NOT NULL,
    partition text NOT NULL,
    passages bigint NOT NULL
);
CREATE INDEX passage_counts_partition ON passage_counts (source, partition, collection);

-- The names of a document as its keyword vectors contain them, after their version.
CREATE FUNCTION keyword_names(title text, source_title text, path text) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT E'\n' || $1 || E'\n' || $2 || E'\n' || substring($3 FROM '[^/]*$') $$;

-- Whether a document differs from its entry in a collection (indexed: it has one). signatures: of the collection's profiles, null for one
-- that is not searched, whose content is not compared. version: of its keyword vectors. names: see `keyword_names`. It takes columns and
-- not rows, because a function of a table's rows would keep the table from being replaced by a copy.
CREATE FUNCTION index_differs(
    state text, content_key text, profile text, payload_hash text, names text,
    indexed boolean, content text, payload text, keywords text, signatures jsonb, version text
) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
SELECT
    CASE
        WHEN state <> 'live' THEN indexed
        WHEN signatures IS NOT NULL AND (
            coalesce(content, '') = '' OR content IS DISTINCT FROM content_key || '|' || (signatures ->> profile)
        ) THEN TRUE
        ELSE
            indexed
            AND (
                payload IS DISTINCT FROM payload_hash
                OR (content <> '' AND keywords IS DISTINCT FROM version || names)
            )
    END
$$;

CREATE FUNCTION count_new_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO document_counts (source, partition, state, documents)
    SELECT f.source, f.partition, f.state, count(*) FROM fresh AS f GROUP BY f.source, f.partition, f.state;

    INSERT INTO index_work (doc_id, source)
    SELECT f.doc_id, f.source FROM fresh AS f WHERE f.state = 'live' OR f.content_key IS NOT NULL ORDER BY f.doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked;
    RETURN NULL;
END
$$;

-- Entries of documents that move to another partition are locked, because another transaction may be changing their passages.
CREATE FUNCTION count_changed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO document_counts (source, partition, state, documents)
    SELECT c.source, c.partition, c.state, sum(c.documents)
    FROM (
        SELECT f.source, f.partition, f.state, 1 AS documents
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE (f.partition, f.state) IS DISTINCT FROM (b.partition, b.state)
        UNION ALL
        SELECT b.source, b.partition, b.state, -1
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE (f.partition, f.state) IS DISTINCT FROM (b.partition, b.state)
    ) AS c
    GROUP BY c.source, c.partition, c.state
    HAVING sum(c.documents) <> 0;

    IF EXISTS (SELECT FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id WHERE f.partition <> b.partition) THEN
        WITH moved AS MATERIALIZED (
            SELECT f.doc_id, f.source, b.partition AS old, f.partition AS new
            FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
            WHERE f.partition <> b.partition
        ),

        entries AS MATERIALIZED (
            SELECT e.doc_id, e.collection, e.chunk_count
            FROM index_entries AS e
            WHERE e.doc_id = ANY(ARRAY(SELECT m.doc_id FROM moved AS m))
            ORDER BY e.doc_id, e.collection
            FOR UPDATE
        )

        INSERT INTO passage_counts (collection, source, partition, passages)
        SELECT e.collection, m.source, p.partition, sum(e.chunk_count * p.sign)
        FROM moved AS m
        INNER JOIN entries AS e ON e.doc_id = m.doc_id
        CROSS JOIN LATERAL (VALUES (m.old, -1), (m.new, 1)) AS p (partition, sign)
        GROUP BY e.collection, m.source, p.partition
        HAVING sum(e.chunk_count * p.sign) <> 0;
    END IF;

    INSERT INTO index_work (doc_id, source)
    SELECT f.doc_id, f.source
    FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
    WHERE
        (f.state, f.stage, f.attempts, f.content_key, f.profile, f.payload_hash, f.title, f.source_title, f.path)
        IS DISTINCT FROM (b.state, b.stage, b.attempts, b.content_key, b.profile, b.payload_hash, b.title, b.source_title, b.path)
    ORDER BY f.doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_removed_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO document_counts (source, partition, state, documents)
    SELECT b.source, b.partition, b.state, -count(*) FROM before AS b GROUP BY b.source, b.partition, b.state;
    RETURN NULL;
END
$$;

-- Before the row is gone, whose partition the entries are counted by.
CREATE FUNCTION remove_entries_of() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM index_entries WHERE doc_id = old.doc_id;
    RETURN old;
END
$$;

-- `OFFSET 0`: documents are looked up one by one by every plan that a session keeps.
CREATE FUNCTION count_new_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO passage_counts (collection, source, partition, passages)
    SELECT f.collection, d.source, d.partition, sum(f.chunk_count)
    FROM fresh AS f
    CROSS JOIN LATERAL (SELECT o.source, o.partition FROM documents AS o WHERE o.doc_id = f.doc_id OFFSET 0) AS d
    WHERE f.chunk_count <> 0
    GROUP BY f.collection, d.source, d.partition;

    INSERT INTO index_work (doc_id, source)
    SELECT DISTINCT f.doc_id, d.source
    FROM fresh AS f
    CROSS JOIN LATERAL (SELECT o.* FROM documents AS o WHERE o.doc_id = f.doc_id OFFSET 0) AS d
    WHERE
        d.state <> 'live' OR f.content = '' OR f.payload IS DISTINCT FROM d.payload_hash
        OR NOT coalesce(starts_with(f.content, d.content_key || '|'), FALSE)
        OR NOT coalesce(
            right(f.keywords, length(keyword_names(d.title, d.source_title, d.path))) = keyword_names(d.title, d.source_title, d.path),
            FALSE
        )
    ORDER BY f.doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_changed_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO passage_counts (collection, source, partition, passages)
    SELECT f.collection, d.source, d.partition, sum(f.chunk_count - b.chunk_count)
    FROM fresh AS f
    INNER JOIN before AS b ON b.doc_id = f.doc_id AND b.collection = f.collection
    CROSS JOIN LATERAL (SELECT o.source, o.partition FROM documents AS o WHERE o.doc_id = f.doc_id OFFSET 0) AS d
    WHERE f.chunk_count <> b.chunk_count
    GROUP BY f.collection, d.source, d.partition;

    INSERT INTO index_work (doc_id, source)
    SELECT DISTINCT f.doc_id, d.source
    FROM fresh AS f
    INNER JOIN before AS b ON b.doc_id = f.doc_id AND b.collection = f.collection
    CROSS JOIN LATERAL (SELECT o.* FROM documents AS o WHERE o.doc_id = f.doc_id OFFSET 0) AS d
    WHERE
        (f.content, f.payload, f.keywords) IS DISTINCT FROM (b.content, b.payload, b.keywords)
        AND (
            d.state <> 'live' OR f.content = '' OR f.payload IS DISTINCT FROM d.payload_hash
            OR NOT coalesce(starts_with(f.content, d.content_key || '|'), FALSE)
            OR NOT coalesce(
                right(f.keywords, length(keyword_names(d.title, d.source_title, d.path))) = keyword_names(d.title, d.source_title, d.path),
                FALSE
            )
        )
    ORDER BY f.doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_removed_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO passage_counts (collection, source, partition, passages)
    SELECT b.collection, d.source, d.partition, -sum(b.chunk_count)
    FROM before AS b
    CROSS JOIN LATERAL (SELECT o.source, o.partition FROM documents AS o WHERE o.doc_id = b.doc_id OFFSET 0) AS d
    WHERE b.chunk_count <> 0
    GROUP BY b.collection, d.source, d.partition;

    INSERT INTO index_work (doc_id, source)
    SELECT DISTINCT b.doc_id, d.source
    FROM before AS b
    CROSS JOIN LATERAL (SELECT o.source, o.state FROM documents AS o WHERE o.doc_id = b.doc_id OFFSET 0) AS d
    WHERE d.state = 'live' AND EXISTS (SELECT FROM index_collections AS c WHERE c.name = b.collection AND c.active)
    ORDER BY b.doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_no_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM document_counts;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_no_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passage_counts;
    RETURN NULL;
END
$$;

CREATE TRIGGER documents_counted_new AFTER INSERT ON documents
REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION count_new_documents();
CREATE TRIGGER documents_counted_changed AFTER UPDATE ON documents
REFERENCING OLD TABLE AS before NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION count_changed_documents();
CREATE TRIGGER documents_counted_removed AFTER DELETE ON documents
REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_removed_documents();
CREATE TRIGGER documents_entries_removed BEFORE DELETE ON documents
FOR EACH ROW EXECUTE FUNCTION remove_entries_of();
CREATE TRIGGER index_entries_counted_new AFTER INSERT ON index_entries
REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION count_new_entries();
CREATE TRIGGER index_entries_counted_changed AFTER UPDATE ON index_entries
REFERENCING OLD TABLE AS before NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION count_changed_entries();
CREATE TRIGGER index_entries_counted_removed AFTER DELETE ON index_entries
REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_removed_entries();

CREATE TRIGGER documents_counted_none AFTER TRUNCATE ON documents FOR EACH STATEMENT EXECUTE FUNCTION count_no_documents();
CREATE TRIGGER index_entries_counted_none AFTER TRUNCATE ON index_entries FOR EACH STATEMENT EXECUTE FUNCTION count_no_entries();

-- The triggers' locks keep others from writing until these are stored. The next sync of each source makes its first pass.
INSERT INTO document_counts (source, partition, state, documents)
SELECT source, partition, state, count(*) FROM documents GROUP BY source, partition, state;

INSERT INTO passage_counts (collection, source, partition, passages)
SELECT e.collection, d.source, d.partition, sum(e.chunk_count)
FROM index_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
GROUP BY e.collection, d.source, d.partition;
