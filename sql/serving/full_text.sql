-- Purpose: keyword search in Postgres: chunks with any of the query's words, best first.
-- Parameters: query, principals, depth, most, most_words, and filters (null: not narrowed): source_types, collection_ids, document_ids,
-- mime_types, authors, tags (json list of lists of alternatives), on_created, since, before, include_archived; left_out_chunks and
-- left_out_partitions (source/partition); collection of the index (null: the active one).
-- Grain: chunk. Index: chunks_tsv, primary keys of chunks and documents.
-- Ranks at most `most` readable chunks that contain all words, and at most `most` for each of the `most_words` longest words, so that
-- the cost does not grow with the frequency of a word.
WITH asked AS (
    SELECT
        coalesce(%(collection)s::text, (SELECT i.name FROM index_collections AS i WHERE i.active)) AS collection,
        plainto_tsquery('english', %(query)s) AS all_words,
        replace(plainto_tsquery('english', %(query)s)::text, ' & ', ' | ')::tsquery AS words
),

allowed AS NOT MATERIALIZED (
    SELECT d.doc_id
    FROM documents AS d
    WHERE
        d.state = 'live'
        AND d.permissions && %(principals)s::text []
        AND (%(source_types)s::text [] IS NULL OR d.source = ANY(%(source_types)s::text []))
        AND (%(collection_ids)s::text [] IS NULL OR d.collection_ids && %(collection_ids)s::text [])
        AND (%(document_ids)s::uuid [] IS NULL OR d.doc_id = ANY(%(document_ids)s::uuid []))
        AND (%(mime_types)s::text [] IS NULL OR d.mime_type = ANY(%(mime_types)s::text []))
        AND (
            %(authors)s::text [] IS NULL
            OR d.author = ANY(%(authors)s::text [])
            OR (d.source = 'slack' AND d.tags -> 'participants' ?| %(authors)s::text [])
        )
        AND NOT EXISTS (
            SELECT 1
            FROM jsonb_array_elements(%(tags)s::jsonb) AS wanted (alternatives)
            WHERE NOT EXISTS (
                SELECT 1 FROM jsonb_array_elements(wanted.alternatives) AS one (tag) WHERE d.tags @> one.tag
            )
        )
        AND (
            %(since)s::timestamptz IS NULL
            OR CASE WHEN %(on_created)s THEN d.created_at ELSE d.modified_at END >= %(since)s::timestamptz
        )
        AND (
            %(before)s::timestamptz IS NULL
            OR CASE WHEN %(on_created)s THEN d.created_at ELSE d.modified_at END < %(before)s::timestamptz
        )
        AND (%(include_archived)s OR d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived')
        AND d.source || '/' || d.partition <> ALL(%(left_out_partitions)s::text [])
),

lists AS (
    SELECT a.all_words AS word
    FROM asked AS a
    UNION ALL
    (
        SELECT w.word::tsquery AS word
        FROM regexp_split_to_table((SELECT a.words::text FROM asked AS a), ' \| ') AS w (word)
        WHERE w.word <> ''
        ORDER BY length(w.word) DESC, w.word ASC
        LIMIT %(most_words)s
    )
),

found AS MATERIALIZED (
    SELECT DISTINCT p.chunk_id
    FROM lists AS w
    CROSS JOIN LATERAL (
        SELECT c.chunk_id
        FROM chunks AS c
        INNER JOIN allowed AS o ON c.doc_id = o.doc_id
        WHERE
            c.tsv @@ w.word
            AND c.collection = (SELECT a.collection FROM asked AS a)
            AND c.chunk_id <> ALL(%(left_out_chunks)s::uuid [])
        LIMIT %(most)s -- noqa: AM09
    ) AS p
)

SELECT
    c.chunk_id::text AS chunk_id,
    ts_rank(c.tsv, asked.words, 1) AS score
FROM found AS f
CROSS JOIN asked
INNER JOIN chunks AS c ON f.chunk_id = c.chunk_id AND asked.collection = c.collection
INNER JOIN allowed AS o ON c.doc_id = o.doc_id
WHERE c.tsv @@ asked.words
ORDER BY score DESC, c.chunk_id ASC
LIMIT %(depth)s
