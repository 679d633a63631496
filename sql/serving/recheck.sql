-- Purpose: post-retrieval permission check: those of these chunks that the caller may currently read, with fresh metadata. One whose
-- permissions were checked too long ago is returned without its text, as `held_back`, so that it can be counted.
-- Its location is what the caller may know of it; a filter on collections only uses those that the caller may know.
-- Parameters: chunk_ids, collection of the index that was searched (null: the active one), principals, fresh_since, collection_ids (null:
-- any). Grain: one row, its text a JSON array of chunks: one value is read with less work than a hundred rows of twenty.
-- Index: primary keys of chunks, documents, partitions and held_deletions.
-- A search that began before a cutover passes the collection that it searched, whose passages are kept.
-- Materialised in this order, so that the primary keys are used even where a first sync has just filled the tables and they have not
-- been analysed yet: the planner then chose to scan every live document, in 10 s for 50,000. For the same reason
-- `checked` reads documents by their keys only and `permitted` is a column of `found`.
-- `own` are the principals that the documents found and their folders name, of a caller who has hundreds: each document and each folder
-- compares its readers with all. Their number is read in a subquery, which the planner cannot evaluate: a plan for known values leaves
-- this part out, so it looked cheaper than one for all values, and each search was planned anew, a third of its time.
-- `whole` repeats the first two cases of `shown_place`, which cover most documents: the function is called only for the others. Its
-- sources are read once for the statement.
WITH wanted AS MATERIALIZED (
    SELECT
        chunk_id,
        doc_id,
        chunk_index,
        chunk_text,
        text_hash,
        section_path,
        anchor,
        page_start,
        page_end,
        start_char,
        places,
        language,
        sketch
    FROM chunks
    WHERE
        chunk_id = ANY(%(chunk_ids)s::uuid [])
        AND collection = coalesce(%(collection)s::text, (SELECT i.name FROM index_collections AS i WHERE i.active))
),

checked AS MATERIALIZED (
    SELECT
        d.doc_id,
        d.title,
        d.source,
        d.source_id,
        d.collection_ids,
        d.path,
        d.mime_type,
        d.url,
        d.owner,
        d.author,
        d.tags,
        d.created_at,
        d.modified_at,
        d.acl_checked_at,
        d.folders,
        d.place_readers,
        d.permissions,
        d.departed,
        d.state
    FROM checked_documents AS d
    WHERE d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM wanted AS w))
),

own AS MATERIALIZED (
    SELECT
        CASE
            WHEN (SELECT cardinality(%(principals)s::text [])) < 300 THEN %(principals)s::text []
            ELSE ARRAY(
                (
                    SELECT r.principal
                    FROM checked AS d
                    CROSS JOIN LATERAL unnest(d.permissions || d.place_readers || d.departed) AS r (principal)
                    UNION ALL
                    SELECT r.principal
                    FROM checked AS d
                    CROSS JOIN LATERAL jsonb_array_elements(d.folders) AS e (folder)
                    CROSS JOIN LATERAL jsonb_array_elements_text(e.folder -> 'readers') AS r (principal)
                )
                INTERSECT
                SELECT unnest(%(principals)s::text [])
            )
        END AS principals
),

found AS MATERIALIZED (
    SELECT
        d.*,
        d.state = 'live' AND d.permissions && o.principals AND NOT d.departed && o.principals AS permitted,
        d.source IN (SELECT s.source FROM sources AS s WHERE NOT s.private_folders) OR d.place_readers && o.principals AS whole,
        coalesce(d.acl_checked_at < %(fresh_since)s, TRUE) AS held_back
    FROM checked AS d
    CROSS JOIN own AS o
),

placed AS MATERIALIZED (
    SELECT
        d.doc_id,
        p.*
    FROM found AS d
    CROSS JOIN own AS o
    CROSS JOIN LATERAL shown_place(
        d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, o.principals
    ) AS p
    WHERE d.permitted AND NOT d.whole
)

SELECT coalesce(json_agg(f), '[]')::text AS hits
FROM (
    SELECT
        c.chunk_id::text AS chunk_id,
        c.doc_id::text AS doc_id,
        c.chunk_index,
        CASE WHEN d.held_back THEN '' ELSE c.chunk_text END AS chunk_text,
        c.text_hash,
        c.section_path,
        c.anchor,
        c.page_start,
        c.page_end,
        c.start_char,
        coalesce(c.places, '[]') AS places,
        c.language,
        c.sketch,
        d.title,
        d.source AS source_type,
        CASE WHEN d.whole THEN d.source_id ELSE p.shown_source_id END AS source_id,
        CASE WHEN d.whole THEN d.collection_ids [1] ELSE p.shown_collection END AS collection_id,
        CASE WHEN d.whole THEN d.path ELSE p.shown_path END AS path,
        d.mime_type,
        CASE WHEN d.whole THEN d.url ELSE p.shown_url END AS url,
        d.owner,
        d.author,
        d.tags,
        d.created_at,
        d.modified_at,
        d.acl_checked_at,
        d.held_back
    FROM wanted AS c
    INNER JOIN found AS d ON c.doc_id = d.doc_id
    LEFT JOIN placed AS p ON d.doc_id = p.doc_id
    WHERE
        d.permitted
        AND (
            %(collection_ids)s::text [] IS NULL
            OR CASE WHEN d.whole THEN d.collection_ids ELSE p.shown_collections END && %(collection_ids)s::text []
        )
) AS f
