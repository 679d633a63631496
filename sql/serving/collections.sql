-- Purpose: a page of the collections that the caller may know, with the number of documents in them that the caller may read.
-- Parameters: principals, fresh_since, source_types (null: all), include_archived, most, and after_source, after_id (the last collection
-- of the page before; null: the first page). Grain: one row, its text a JSON array of collections; a folder counts what lies below it.
-- Index: documents_kept_permissions. Names of folders come from one document in which the caller may know the folder.
-- `own` are the principals as keys, which are searched in halves: as an array, each document would compare its readers with all. Fewer than
-- 300 are looked up in the index, so the statement is planned for its values.
WITH own AS MATERIALIZED (
    SELECT jsonb_object_agg(r.principal, 0) AS principals
    FROM unnest(%(principals)s::text []) AS r (principal)
),

readable AS MATERIALIZED (
    SELECT
        d.doc_id,
        d.source,
        p.shown_collections AS known
    FROM checked_documents AS d
    CROSS JOIN LATERAL shown_place(
        d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers,
        CASE
            WHEN cardinality(%(principals)s::text []) < 300 THEN %(principals)s::text []
            ELSE ARRAY(
                SELECT r.principal
                FROM unnest(d.place_readers) AS r (principal)
                WHERE (SELECT o.principals FROM own AS o) ? r.principal
                UNION ALL
                SELECT r.principal
                FROM jsonb_array_elements(d.folders) AS e (folder)
                CROSS JOIN LATERAL jsonb_array_elements_text(e.folder -> 'readers') AS r (principal)
                WHERE (SELECT o.principals FROM own AS o) ? r.principal
            )
        END
    ) AS p
    WHERE
        d.state = 'live'
        AND CASE
            WHEN cardinality(%(principals)s::text []) < 300 THEN d.permissions && %(principals)s::text []
            ELSE (SELECT o.principals FROM own AS o) ?| d.permissions
        END
        AND NOT (SELECT o.principals FROM own AS o) ?| d.departed
        AND d.acl_checked_at >= %(fresh_since)s
        AND (%(source_types)s::text [] IS NULL OR d.source = ANY(%(source_types)s::text []))
        AND (%(include_archived)s OR d.tags ->> 'lifecycle' IS DISTINCT FROM 'archived')
),

counted AS MATERIALIZED (
    SELECT
        r.source,
        c.collection_id,
        count(*) AS documents,
        min(r.doc_id::text) AS example
    FROM readable AS r
    CROSS JOIN LATERAL unnest(r.known) AS c (collection_id)
    GROUP BY r.source, c.collection_id
),

page AS (
    SELECT
        k.source,
        k.collection_id,
        k.documents,
        k.example
    FROM counted AS k
    WHERE %(after_source)s::text IS NULL OR (k.source, k.collection_id) > (%(after_source)s::text, %(after_id)s::text)
    ORDER BY k.source, k.collection_id
    LIMIT %(most)s
)

SELECT
    (SELECT count(*) FROM counted) AS total,
    (
        SELECT coalesce(json_agg(f ORDER BY f.source_type, f.collection_id), '[]')::text
        FROM (
            SELECT
                g.collection_id,
                g.source AS source_type,
                coalesce(n.name, CASE WHEN d.source = 'slack' THEN d.tags ->> 'channel' END, g.collection_id) AS name,
                coalesce(n.path, '') AS path,
                g.documents
            FROM page AS g
            INNER JOIN documents AS d ON d.doc_id = g.example::uuid
            LEFT JOIN LATERAL (
                SELECT
                    max(nullif(e.folder ->> 'name', '')) FILTER (WHERE e.place = w.place) AS name,
                    string_agg(nullif(e.folder ->> 'name', ''), '/' ORDER BY e.place) AS path
                FROM jsonb_array_elements(d.folders) WITH ORDINALITY AS w (folder, place)
                INNER JOIN jsonb_array_elements(d.folders) WITH ORDINALITY AS e (folder, place) ON e.place <= w.place
                WHERE
                    w.folder ->> 'id' = g.collection_id
                    AND (d.place_readers && %(principals)s::text [] OR (e.folder -> 'readers') ?| %(principals)s::text [])
            ) AS n ON TRUE
        ) AS f
    ) AS collections
