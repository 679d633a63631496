-- Collections of the index: the active one that searches read, one being built, and the one that was replaced last; and the index
-- as a whole.
-- Grain: collection, document or chunk, as each statement says.

-- name: active_collection
-- The collection behind the alias. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, active
FROM index_collections
WHERE active;

-- name: building_collection
-- The collection that a reindex is filling. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, active
FROM index_collections
WHERE building;

-- name: kept_collection
-- The collection that was replaced last. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, active
FROM index_collections
WHERE NOT active AND NOT building AND replaced_at IS NOT NULL
ORDER BY replaced_at DESC
LIMIT 1;

-- name: collection
-- Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, active
FROM index_collections
WHERE name = :name;

-- name: collections
-- Every collection that was ever created here. Grain: collection.
SELECT name, model, dimensions, active, building, replaced_at, coalesce(replaced_at > now() - make_interval(mins => 1), FALSE) AS just_replaced
FROM index_collections
ORDER BY name;

-- name: save_collection!
-- Parameters: name, model, dimensions, chunking_version, bm25_avg_len, provider, model_source, model_dimensions, model_window.
INSERT INTO index_collections AS c (
    name, model, dimensions, chunking_version, bm25_avg_len, provider, model_source, model_dimensions, model_window
)
VALUES (
    :name, :model, :dimensions, :chunking_version, :bm25_avg_len, :provider, :model_source, :model_dimensions, :model_window
)
ON CONFLICT (name) DO UPDATE SET
    provider = excluded.provider, model_source = excluded.model_source, model_dimensions = excluded.model_dimensions,
    model_window = excluded.model_window;

-- name: activate!
-- Grain: collection.
UPDATE index_collections SET active = TRUE, building = FALSE, replaced_at = NULL WHERE name = :name;

-- name: deactivate_others!
-- Grain: collection.
UPDATE index_collections SET active = FALSE, replaced_at = now() WHERE name <> :name AND active;

-- name: begin_building!
-- Grain: collection.
UPDATE index_collections SET building = TRUE WHERE name = :name;

-- name: forget_collection!
-- Forget a collection and its known entries. Grain: collection.
DELETE FROM index_collections WHERE name = :name AND NOT active;

-- name: forget_entries!
-- Forget all entries of a secondary collection. Grain: document.
DELETE FROM index_entries WHERE collection = :collection;

-- name: clear_beside!
-- Remove all chunks of secondary collections, once none is left. Grain: chunk.
TRUNCATE chunks_beside;

-- name: profiles_in_use
-- Chunking profiles of documents that have content. Grain: profile.
SELECT profile, count(*) AS documents
FROM documents
WHERE state = 'live' AND content_key IS NOT NULL
GROUP BY profile
ORDER BY profile;

-- name: pending_beside
-- Live documents that a secondary collection does not hold as wanted. Parameters: source, partitions text[] or null,
-- doc_ids or null, collection, signatures jsonb (profile -> signature) of it, served jsonb or null: if given, only those that it
-- holds in another state, or that the active collection, with these signatures, has not indexed yet. Grain: document.
SELECT
    d.doc_id::text AS doc_id, d.source_id, d.partition, d.content_hash, d.content_key, d.mime_type, d.source_title AS title,
    d.description, d.profile, d.owner, d.tags, d.state, d.attempts, e.doc_id IS NOT NULL AS was_indexed
FROM documents AS d
LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = :collection
WHERE
    d.source = :source AND d.state = 'live' AND d.content_key IS NOT NULL
    AND (:partitions::text [] IS NULL OR d.partition = ANY(:partitions))
    AND (:doc_ids::uuid [] IS NULL OR d.doc_id = ANY(:doc_ids))
    AND e.content IS DISTINCT FROM d.content_key || '|' || (:signatures::jsonb ->> d.profile)
    AND (
        :served::jsonb IS NULL OR e.doc_id IS NOT NULL
        OR d.indexed_content IS DISTINCT FROM d.content_key || '|' || (:served::jsonb ->> d.profile)
    )
ORDER BY d.partition, d.source_id;

-- name: begin_beside!
-- Mark the points of these documents in a secondary collection as being written.
WITH facts AS (
    SELECT r.* FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, document_title text, language text, page_count integer)
),

noted AS (
    UPDATE documents AS d SET document_title = f.document_title, language = f.language, page_count = f.page_count
    FROM facts AS f
    WHERE
        d.doc_id = f.doc_id
        AND (d.document_title, d.language, d.page_count) IS DISTINCT FROM (f.document_title, f.language, f.page_count)
)

INSERT INTO index_entries (collection, doc_id)
SELECT :collection, d.doc_id FROM documents AS d INNER JOIN facts AS f ON f.doc_id = d.doc_id
ON CONFLICT (collection, doc_id) DO UPDATE SET content = '';

-- name: drop_beside!
-- Grain: chunk.
DELETE FROM chunks_beside WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: indexed_beside!
-- Record that a secondary collection holds these documents as wanted. Grain: document.
UPDATE index_entries AS e SET
    content = r.indexed_content, payload = r.indexed_payload, keywords = r.indexed_keywords, chunk_count = r.chunk_count
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    doc_id uuid, indexed_content text, indexed_payload text, indexed_keywords text, chunk_count integer
)
WHERE e.doc_id = r.doc_id AND e.collection = :collection;

-- name: payloads_to_update_beside
-- Live documents whose payload in a secondary collection is out of date. Grain: document.
SELECT d.*, p.acl_checked_at
FROM index_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
LEFT JOIN partitions AS p ON p.source = d.source AND p.partition = d.partition
WHERE e.collection = :collection AND d.source = :source AND d.state = 'live' AND e.payload IS DISTINCT FROM d.payload_hash
ORDER BY d.doc_id;

-- name: payloads_updated_beside!
-- Grain: document.
UPDATE index_entries AS e SET payload = r.indexed_payload
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, indexed_payload text)
WHERE e.doc_id = r.doc_id AND e.collection = :collection;

-- name: keywords_to_refresh_beside
-- As `keywords_to_refresh`, for a secondary collection. Grain: document.
SELECT d.doc_id::text AS doc_id, d.title, d.source_title, d.path, e.chunk_count
FROM index_entries AS e
INNER JOIN documents AS d ON d.doc_id = e.doc_id
WHERE
    e.collection = :collection AND d.source = :source AND d.state = 'live' AND e.content <> ''
    AND e.keywords IS DISTINCT FROM
    :version || E'\n' || d.title || E'\n' || d.source_title || E'\n' || substring(d.path FROM '[^/]*$')
ORDER BY d.doc_id;

-- name: keyword_passages_to_refresh_beside
-- As `keyword_passages_to_refresh`. Grain: chunk. Index: chunks_beside (doc_id, chunk_index).
SELECT c.chunk_id::text AS chunk_id, c.doc_id::text AS doc_id, c.chunk_index, c.chunk_text
FROM chunks_beside AS c
INNER JOIN index_entries AS e ON e.doc_id = c.doc_id AND e.collection = :collection
WHERE
    c.doc_id = ANY(:doc_ids::uuid [])
    AND (c.chunk_index = 0 OR coalesce(NOT starts_with(e.keywords, :version || E'\n'), TRUE));

-- name: name_passages_beside!
-- Grain: chunk. Index: primary key.
UPDATE chunks_beside AS c SET name_words = r.words, sketch = r.sketch
FROM unnest(:chunk_ids::uuid [], :words::text [], :sketches::text []) AS r (chunk_id, words, sketch)
WHERE c.chunk_id = r.chunk_id AND (c.name_words <> r.words OR c.sketch IS DISTINCT FROM r.sketch);

-- name: keywords_refreshed_beside!
-- Parameters: collection, rows jsonb (doc_id, indexed_keywords). Grain: document.
UPDATE index_entries AS e SET keywords = r.indexed_keywords
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, indexed_keywords text)
WHERE e.doc_id = r.doc_id AND e.collection = :collection;

-- name: left_behind
-- Number of documents that the active collection has entries of and the secondary one does not hold as wanted; and of the points
-- that the secondary one should have. Grain: one row.
SELECT
    count(*) FILTER (
        WHERE d.state = 'live' AND d.content_key IS NOT NULL AND d.indexed_content IS NOT NULL
        AND e.content IS DISTINCT FROM d.content_key || '|' || (:signatures::jsonb ->> d.profile)
    ) AS documents,
    cast(coalesce(sum(e.chunk_count), 0) AS bigint) AS points,
    cast(coalesce(array_agg(DISTINCT d.source) FILTER (
        WHERE d.state = 'live' AND d.content_key IS NOT NULL AND d.indexed_content IS NOT NULL
        AND e.content IS DISTINCT FROM d.content_key || '|' || (:signatures::jsonb ->> d.profile)
    ), '{}') AS text []) AS sources
FROM documents AS d
LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = :collection;

-- name: keep_entries!
-- Save the entries of the active collection before another one is promoted. Grain: document.
INSERT INTO index_entries AS e (collection, doc_id, content, payload, keywords, chunk_count)
SELECT :collection, doc_id, indexed_content, indexed_payload, indexed_keywords, chunk_count
FROM documents
WHERE indexed_content IS NOT NULL
ON CONFLICT (collection, doc_id) DO UPDATE SET
    content = excluded.content, payload = excluded.payload, keywords = excluded.keywords, chunk_count = excluded.chunk_count;

-- name: take_entries!
-- Copy a collection's entries to `documents` when it is promoted. Grain: document.
UPDATE documents AS d SET
    indexed_content = e.content, indexed_payload = e.payload, indexed_keywords = e.keywords, indexed_at = now(),
    chunk_count = coalesce(e.chunk_count, 0)
FROM documents AS b
LEFT JOIN index_entries AS e ON e.doc_id = b.doc_id AND e.collection = :collection
WHERE d.doc_id = b.doc_id AND (d.indexed_content IS NOT NULL OR e.doc_id IS NOT NULL);

-- name: exchange_chunks#
-- Swap the chunk tables at the cutover, atomically for every reader. Grain: table.
ALTER TABLE chunks RENAME TO chunks_moving;
ALTER TABLE chunks_beside RENAME TO chunks;
ALTER TABLE chunks_moving RENAME TO chunks_beside;

-- name: readable_sample
-- Live documents with their own title and their readers, in a pseudorandom but stable order.
-- Grain: document.
SELECT doc_id::text AS doc_id, title, source, source_id, permissions
FROM documents
WHERE state = 'live' AND cardinality(permissions) > 0 AND indexed_content <> '' AND chunk_count > 0 AND title ~ '\w+\W+\w+'
ORDER BY md5(doc_id::text)
LIMIT :most;

-- name: drop_caches!
-- Delete search candidates cached before the index changed. Grain: cache entry.
DELETE FROM search_cache WHERE index_version < (SELECT version FROM index_version);

-- name: raise_version!
-- Invalidate all candidates cached so far. Grain: one row.
UPDATE index_version SET version = version + 1;

-- name: usage
-- Embedding used in a month. Grain: one row.
SELECT cast(coalesce(sum(cost_usd), 0) AS double precision) AS cost_usd
FROM embedding_usage
WHERE month = :month;

-- name: add_usage!
-- Grain: (month, model).
INSERT INTO embedding_usage (month, model, texts, tokens, cost_usd)
VALUES (:month, :model, :texts, :tokens, :cost_usd)
ON CONFLICT (month, model) DO UPDATE SET
    texts = embedding_usage.texts + excluded.texts, tokens = embedding_usage.tokens + excluded.tokens,
    cost_usd = embedding_usage.cost_usd + excluded.cost_usd;

-- name: forget_index!
-- Record that Qdrant lost a collection: nothing counts as indexed there. Grain: document.
UPDATE documents SET indexed_content = NULL, indexed_payload = NULL
WHERE right(indexed_content, length(:collection) + 1) = '|' || :collection OR indexed_content = '';
