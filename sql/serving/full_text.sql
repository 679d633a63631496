-- Purpose: keyword search in Postgres: chunks with any of the query's words, best first.
-- Parameters: query, principals, depth, and filters (null: no filter): chunk_ids, source_types, collection_ids, document_ids,
-- mime_types, authors, tags (json list of lists of alternatives), on_created, since, before, include_archived.
-- Grain: chunk. Index: chunks_tsv, primary key of documents.
WITH asked AS (
    SELECT replace(plainto_tsquery('english', %(query)s)::text, ' & ', ' | ')::tsquery AS words
)

SELECT
    c.chunk_id::text AS chunk_id,
    ts_rank(c.tsv, asked.words, 1) AS score
FROM asked
INNER JOIN chunks AS c ON c.tsv @@ asked.words
INNER JOIN documents AS d ON c.doc_id = d.doc_id
WHERE
    d.state = 'live'
    AND d.permissions && %(principals)s::text []
    AND (%(chunk_ids)s::uuid [] IS NULL OR c.chunk_id = ANY(%(chunk_ids)s::uuid []))
    AND (%(source_types)s::text [] IS NULL OR d.source = ANY(%(source_types)s::text []))
    AND (%(collection_ids)s::text [] IS NULL OR d.collection_ids && %(collection_ids)s::text [])
    AND (%(document_ids)s::uuid [] IS NULL OR d.doc_id = ANY(%(document_ids)s::uuid []))
    AND (%(mime_types)s::text [] IS NULL OR d.mime_type = ANY(%(mime_types)s::text []))
    AND (%(authors)s::text [] IS NULL OR d.author = ANY(%(authors)s::text []))
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
ORDER BY score DESC, c.chunk_id ASC
LIMIT %(depth)s
