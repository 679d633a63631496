-- Collections of the index: the active one that searches read, one being built, and the one that was replaced last; and the index
-- as a whole. Grain: collection or document, as each statement says.

-- name: active_collection
-- The collection behind the alias. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, model_prompts, active
FROM index_collections
WHERE active;

-- name: building_collection
-- The collection that a reindex is filling. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, model_prompts, active
FROM index_collections
WHERE building;

-- name: kept_collection
-- The collection that was replaced last, also while a rollback fills it. Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, model_prompts, active
FROM index_collections
WHERE NOT active AND replaced_at IS NOT NULL
ORDER BY replaced_at DESC
LIMIT 1;

-- name: collection
-- Grain: collection.
SELECT name, model, dimensions, bm25_avg_len, provider, model_source, model_dimensions, model_window, model_prompts, active
FROM index_collections
WHERE name = :name;

-- name: collections
-- Every collection that was ever created here; `expired`: replaced so long ago that nobody will go back to it. Grain: collection.
SELECT
    name,
    model,
    dimensions,
    active,
    building,
    replaced_at,
    coalesce(replaced_at > now() - make_interval(mins => 1), FALSE) AS just_replaced,
    coalesce(replaced_at < now() - make_interval(days => 14), FALSE) AS expired
FROM index_collections
ORDER BY name;

-- name: save_collection!
-- Parameters: name, model, dimensions, chunking_version, bm25_avg_len, provider, model_source, model_dimensions, model_window,
-- model_prompts.
INSERT INTO index_collections AS c (
    name, model, dimensions, chunking_version, bm25_avg_len, provider, model_source, model_dimensions, model_window,
    model_prompts, reader_ids
)
VALUES (
    :name, :model, :dimensions, :chunking_version, :bm25_avg_len, :provider, :model_source, :model_dimensions, :model_window,
    :model_prompts, TRUE
)
ON CONFLICT (name) DO UPDATE SET
    provider = excluded.provider, model_source = excluded.model_source, model_dimensions = excluded.model_dimensions,
    model_window = excluded.model_window, model_prompts = excluded.model_prompts;

-- name: measured
-- Save the mean length of a collection's passages, unless another sync has measured it, and return the one that counts. One row.
UPDATE index_collections SET
    bm25_avg_len = CASE WHEN bm25_avg_len > :unmeasured::double precision THEN bm25_avg_len ELSE :bm25_avg_len::double precision END
WHERE name = :name
RETURNING bm25_avg_len;

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
-- Forget a collection with its entries and passages. Grain: collection.
DELETE FROM index_collections WHERE name = :name AND NOT active;

-- name: forget_entries!
-- Forget all entries and passages of a collection that is not active. Grain: document.
DELETE FROM index_entries
WHERE collection = :collection AND NOT EXISTS (SELECT FROM index_collections AS c WHERE c.name = :collection AND c.active);

-- name: forget_points!
-- Record that Qdrant lost the points of a collection: its entries are incomplete. Passages stay, for keyword search in Postgres.
-- Grain: document.
UPDATE index_entries SET content = '', payload = NULL WHERE collection = :collection;

-- name: profiles_in_use
-- Chunking profiles of documents that have content. Grain: profile.
SELECT profile, count(*) AS documents
FROM documents
WHERE state = 'live' AND content_key IS NOT NULL
GROUP BY profile
ORDER BY profile;

-- name: left_behind
-- Number of documents that the active collection holds and this one does not hold as wanted, but for those that are left out; and of the
-- points that this one should have. Grain: one row.
WITH held AS (
    SELECT
        d.source, e.chunk_count,
        d.state = 'live' AND d.content_key IS NOT NULL AND a.doc_id IS NOT NULL
        AND NOT d.doc_id = ANY(:left_out::uuid [])
        AND (e.content IS DISTINCT FROM (d.content_key || '|' || (:signatures::jsonb ->> d.profile))) AS missing
    FROM documents AS d
    LEFT JOIN active_entries AS a ON a.doc_id = d.doc_id
    LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = :collection
)

SELECT
    count(*) FILTER (WHERE h.missing) AS documents,
    cast(coalesce(sum(h.chunk_count), 0) AS bigint) AS points,
    cast(coalesce(array_agg(DISTINCT h.source) FILTER (WHERE h.missing), '{}') AS text []) AS sources
FROM held AS h;

-- name: readable_sample
-- Live documents with their own title and their readers, in a pseudorandom but stable order.
-- Grain: document.
SELECT d.doc_id::text AS doc_id, d.title, d.source, d.source_id, d.permissions
FROM documents AS d
INNER JOIN active_entries AS e ON e.doc_id = d.doc_id
WHERE d.state = 'live' AND cardinality(d.permissions) > 0 AND e.content <> '' AND e.chunk_count > 0 AND d.title ~ '\w+\W+\w+'
ORDER BY md5(d.doc_id::text)
LIMIT :most;

-- name: raise_version!
-- Invalidate all candidates cached so far, of every source. Grain: one row.
UPDATE index_version SET version = version + 1;

-- name: usage
-- Embedding used in a month. Grain: one row.
SELECT cast(coalesce(sum(cost_usd), 0) AS double precision) AS cost_usd
FROM embedding_usage
WHERE month = :month;
