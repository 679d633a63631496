-- Purpose: the names of these documents that the caller may know at this moment: author, Slack channel and folders, as `readable_names`
-- gives them, to check names that were read some minutes ago.
-- Parameters: doc_ids, principals, fresh_since. Grain: document, kind and value. Index: primary keys of documents and partitions.
WITH found AS MATERIALIZED (
    SELECT
        d.doc_id,
        d.source,
        d.author,
        d.tags,
        d.folders,
        d.place_readers
    FROM checked_documents AS d
    WHERE
        d.doc_id = ANY(%(doc_ids)s::uuid [])
        AND d.state = 'live'
        AND d.permissions && %(principals)s::text []
        AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
)

SELECT
    'author' AS kind,
    d.author AS value,
    d.author AS name,
    d.doc_id::text AS doc_id
FROM found AS d
WHERE d.author IS NOT NULL
UNION ALL
SELECT
    'channel' AS kind,
    d.tags ->> 'channel' AS value,
    d.tags ->> 'channel' AS name,
    d.doc_id::text AS doc_id
FROM found AS d
WHERE d.source = 'slack' AND d.tags ->> 'channel' IS NOT NULL
UNION ALL
SELECT
    'folder' AS kind,
    w.folder ->> 'id' AS value,
    string_agg(nullif(e.folder ->> 'name', ''), '/' ORDER BY e.place) AS name,
    d.doc_id::text AS doc_id
FROM found AS d
CROSS JOIN LATERAL jsonb_array_elements(d.folders) WITH ORDINALITY AS w (folder, place)
INNER JOIN LATERAL jsonb_array_elements(d.folders) WITH ORDINALITY AS e (folder, place)
    ON
        e.place <= w.place
        AND (d.place_readers && %(principals)s::text [] OR (e.folder -> 'readers') ?| %(principals)s::text [])
WHERE
    w.folder ->> 'name' <> ''
    AND (d.place_readers && %(principals)s::text [] OR (w.folder -> 'readers') ?| %(principals)s::text [])
GROUP BY d.doc_id, w.place, w.folder
