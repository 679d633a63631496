-- Reads and repairs of Postgres by reconciliation. Grain: document, unless a statement says otherwise.

-- name: registered_page
-- A page of the documents of a source in the registry; content_hash: of the content that the lake should hold. Parameters: source,
-- after (source_id), most. Index: unique (source, source_id).
SELECT source_id, partition, state, content_hash
FROM documents
WHERE source = :source AND source_id > :after
ORDER BY source_id
LIMIT :most;

-- name: waiting
-- Documents with a held deletion, approved or not. Parameters: source.
SELECT source_id FROM held_deletions WHERE source = :source;

-- name: live_points
-- Those of these chunks of a collection that belong to live documents of a source. Parameters: source, collection, chunk_ids.
-- Grain: chunk. Index: primary keys.
SELECT c.chunk_id::text AS chunk_id
FROM chunks AS c
INNER JOIN documents AS d ON d.doc_id = c.doc_id
WHERE c.chunk_id = ANY(:chunk_ids::uuid []) AND c.collection = :collection AND d.source = :source AND d.state = 'live';

-- name: live_page
-- A page of live documents with the ids of their chunks in the active collection. Parameters: source, after (doc_id), most.
-- Index: primary keys, chunks (doc_id, collection, chunk_index).
SELECT
    d.doc_id::text AS doc_id, d.source_id, e.collection, e.chunk_count, e.content,
    ARRAY(SELECT c.chunk_id::text FROM chunks AS c WHERE c.doc_id = d.doc_id AND c.collection = e.collection) AS chunk_ids
FROM documents AS d
INNER JOIN active_entries AS e ON e.doc_id = d.doc_id
WHERE d.source = :source AND d.state = 'live' AND d.doc_id > :after::uuid AND e.doc_id > :after::uuid
ORDER BY d.doc_id
LIMIT :most;

-- name: mark_for_rewrite!
-- Make the indexed stage write these documents to the active collection again, from the lake. Parameters: doc_ids. Index: primary key.
UPDATE active_entries SET content = '' WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: mark_points_incomplete!
-- Mark documents as incomplete before their points are deleted because no one may find them; they stay incomplete until a sync
-- has removed the rest. Parameters: doc_ids. Index: primary key.
UPDATE index_entries AS e SET content = ''
FROM documents AS d
WHERE d.doc_id = e.doc_id AND e.doc_id = ANY(:doc_ids::uuid []) AND d.state <> 'live';

-- name: mark_for_refetch!
-- Make the next listing fetch these documents again. Parameters: source, source_ids text[]. Index: unique (source, source_id).
UPDATE documents SET version = '' WHERE source = :source AND source_id = ANY(:source_ids);

-- name: lake_contents^
-- The lake's expected content: sources with contents, whether anything is indexed, and the models that indexed it. Grain: one row.
-- Index: primary keys; reads one row per source and collection.
SELECT
    array(
        SELECT s.source
        FROM source_states AS s
        WHERE EXISTS (SELECT 1 FROM documents AS d WHERE d.source = s.source AND d.state = 'live' AND d.content_hash IS NOT NULL)
    ) AS sources,
    EXISTS (SELECT 1 FROM chunks) AS indexed,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('model', c.model, 'dimensions', c.dimensions)), '[]') FROM index_collections AS c WHERE c.active) AS models;

-- name: live_contents
-- Contents of live documents, with their size if the source reports the size of the stored bytes. Grain: document.
SELECT source_id, content_hash, CASE WHEN source IN (SELECT s.source FROM sources AS s WHERE s.stored_size) THEN size END AS size
FROM documents
WHERE state = 'live' AND content_hash IS NOT NULL
ORDER BY source_id;
