-- Purpose: texts of passages that the caller may read and that hold any of these words, to complete and correct a word of a query from.
-- Parameters: forms (words in any form, to_tsquery's syntax), lexemes (a tsquery), principals (keys of a JSON object, which are searched
-- in halves: as an array, each document would compare its readers with all), fresh_since, collection (null: the active one), most. Grain: chunk. Index: chunks_tsv, primary keys of documents and partitions.
-- They are the first ones as they are stored: their choice depends on no document that the caller may not read, as the most frequent would.
-- Materialised, and the words in a subquery, so that their index is read once: the planner chose to evaluate hundreds of words for each
-- passage, or to read the index again for each document.
WITH held AS MATERIALIZED (
    SELECT
        c.chunk_id,
        c.doc_id,
        c.collection
    FROM chunks AS c
    WHERE
        c.tsv @@ (SELECT to_tsquery('english', %(forms)s) || %(lexemes)s::text::tsquery)
        AND c.collection = coalesce(%(collection)s::text, (SELECT i.name FROM index_collections AS i WHERE i.active))
)

SELECT
    d.doc_id::text AS doc_id,
    coalesce(d.title, '') AS title,
    c.section_path,
    c.chunk_text
FROM held AS h
INNER JOIN checked_documents AS d ON h.doc_id = d.doc_id
INNER JOIN chunks AS c ON h.chunk_id = c.chunk_id AND h.collection = c.collection
WHERE
    d.state = 'live'
    AND %(principals)s::jsonb ?| d.permissions
    AND NOT %(principals)s::jsonb ?| d.departed
    AND d.acl_checked_at >= %(fresh_since)s
    AND d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived'
LIMIT %(most)s -- noqa: AM09
