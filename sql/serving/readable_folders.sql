-- Purpose: the folders of the documents that the caller may read, to find them by name, each with one such document. A folder is named as
-- far as the caller may know the folders of its path. It lists all of them, as `readable_names` does, and reads every document that the
-- caller may read: only where a folder may be meant, and by one caller at a time.
-- Parameters: principals, fresh_since. Grain: folder and path. Index: documents_kept_permissions.
-- `own` are the principals as keys, which are searched in halves: as an array, each document would compare its readers with all. Fewer than
-- 300 are looked up in the index, so the statement is planned for its values.
WITH own AS MATERIALIZED (
    SELECT jsonb_object_agg(r.principal, 0) AS principals
    FROM unnest(%(principals)s::text []) AS r (principal)
),

places AS MATERIALIZED (
    SELECT min(d.doc_id::text) AS doc_id
    FROM checked_documents AS d
    WHERE
        d.state = 'live'
        AND d.folders <> '[]'
        AND CASE
            WHEN cardinality(%(principals)s::text []) < 300 THEN d.permissions && %(principals)s::text []
            ELSE (SELECT o.principals FROM own AS o) ?| d.permissions
        END
        AND NOT (SELECT o.principals FROM own AS o) ?| d.departed
        AND d.acl_checked_at >= %(fresh_since)s
    GROUP BY d.source, d.collection_ids
)

SELECT
    'folder' AS kind,
    f.collection_id AS value,
    f.path AS name,
    min(p.doc_id) AS doc_id
FROM places AS p
INNER JOIN documents AS d ON d.doc_id = p.doc_id::uuid
CROSS JOIN LATERAL (
    SELECT
        w.folder ->> 'id' AS collection_id,
        string_agg(nullif(e.folder ->> 'name', ''), '/' ORDER BY e.place) AS path
    FROM jsonb_array_elements(d.folders) WITH ORDINALITY AS w (folder, place)
    INNER JOIN jsonb_array_elements(d.folders) WITH ORDINALITY AS e (folder, place)
        ON
            e.place <= w.place
            AND (d.place_readers && %(principals)s::text [] OR (e.folder -> 'readers') ?| %(principals)s::text [])
    WHERE
        w.folder ->> 'name' <> ''
        AND (d.place_readers && %(principals)s::text [] OR (w.folder -> 'readers') ?| %(principals)s::text [])
    GROUP BY w.place, w.folder
) AS f
GROUP BY f.collection_id, f.path
