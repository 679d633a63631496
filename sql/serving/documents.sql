-- Purpose: a page of the documents that the caller may read, latest first, and the number of all that match.
-- Parameters: principals, fresh_since, most, filters as in `full_text.sql`, title (a part of it, in lower case), and before_at, before_id
-- (the last document of the page before; null: the first page). Grain: one row, its text a JSON array of documents.
-- Index: documents_kept_permissions, and primary keys for the page. Its duration depends on what the caller may read, not on what is
-- hidden: the permissions are the first condition (`matching` is materialized), the order comes after.
-- A filter on collections only uses those that the caller may know.
-- `own` are the principals as keys, which are searched in halves: as an array, each document would compare its readers with all. Fewer than
-- 300 are looked up in the index, so the statement is planned for its values.
WITH own AS MATERIALIZED (
    SELECT jsonb_object_agg(r.principal, 0) AS principals
    FROM unnest(%(principals)s::text []) AS r (principal)
),

matching AS MATERIALIZED (
    SELECT
        d.doc_id,
        coalesce(d.modified_at, '-infinity') AS changed_at
    FROM checked_documents AS d
    WHERE
        d.state = 'live'
        AND CASE
            WHEN cardinality(%(principals)s::text []) < 300 THEN d.permissions && %(principals)s::text []
            ELSE (SELECT o.principals FROM own AS o) ?| d.permissions
        END
        AND NOT (SELECT o.principals FROM own AS o) ?| d.departed
        AND d.acl_checked_at >= %(fresh_since)s
        AND (%(source_types)s::text [] IS NULL OR d.source = ANY(%(source_types)s::text []))
        AND (%(mime_types)s::text [] IS NULL OR d.mime_type = ANY(%(mime_types)s::text []))
        AND (
            %(authors)s::text [] IS NULL
            OR d.author = ANY(%(authors)s::text [])
            OR (d.source = 'slack' AND d.tags -> 'participants' ?| %(authors)s::text [])
        )
        AND (%(title)s::text IS NULL OR strpos(lower(d.title), %(title)s::text) > 0)
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
        AND (
            %(collection_ids)s::text [] IS NULL
            OR (
                d.collection_ids && %(collection_ids)s::text []
                AND (
                    SELECT p.shown_collections && %(collection_ids)s::text []
                    FROM shown_place(
                        d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers,
                        %(principals)s::text []
                    ) AS p
                )
            )
        )
),

page AS (
    SELECT
        m.doc_id,
        m.changed_at
    FROM matching AS m
    WHERE
        %(before_id)s::uuid IS NULL
        OR (m.changed_at, m.doc_id) < (coalesce(%(before_at)s::timestamptz, '-infinity'), %(before_id)s::uuid)
    ORDER BY m.changed_at DESC, m.doc_id DESC
    LIMIT %(most)s
)

SELECT
    (SELECT count(*) FROM matching) AS total,
    (
        SELECT coalesce(json_agg(f), '[]')::text
        FROM (
            SELECT
                d.doc_id::text AS doc_id,
                d.title,
                d.source AS source_type,
                p.shown_source_id AS source_id,
                p.shown_collection AS collection_id,
                p.shown_path AS path,
                d.mime_type,
                p.shown_url AS url,
                d.owner,
                d.author,
                d.tags,
                d.created_at,
                d.modified_at,
                e.indexed_at,
                d.language,
                d.page_count,
                d.notes,
                coalesce(e.chunk_count, 0) AS chunk_count,
                d.acl_checked_at
            FROM page AS g
            INNER JOIN checked_documents AS d ON g.doc_id = d.doc_id
            LEFT JOIN active_entries AS e ON d.doc_id = e.doc_id
            CROSS JOIN LATERAL shown_place(
                d.doc_id, d.source, d.source_id, d.path, d.url, d.collection_ids, d.folders, d.place_readers, %(principals)s::text []
            ) AS p
            ORDER BY g.changed_at DESC, g.doc_id DESC
        ) AS f
    ) AS documents
