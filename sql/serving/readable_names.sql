-- Purpose: the authors, Slack channels and folders of the documents that the caller may read, to understand names in a question and to find
-- them while typing, each with one such document. It lists all of them and does not depend on the name that was asked for, so that its
-- duration says nothing about a person, a channel or a folder. A folder is named as far as the caller may know the folders of its path.
-- Parameters: principals, fresh_since. Grain: kind, value and name. Index: documents_author, documents_channel, from one name to the next,
-- each with a look for a document that the caller may read; documents_kept_permissions.
WITH RECURSIVE authors AS (
    SELECT min(d.author) AS name
    FROM documents AS d
    WHERE d.state = 'live'
    UNION ALL
    SELECT (SELECT min(d.author) FROM documents AS d WHERE d.state = 'live' AND d.author > a.name)
    FROM authors AS a
    WHERE a.name IS NOT NULL
),

channels AS (
    SELECT min(d.tags ->> 'channel') AS name
    FROM documents AS d
    WHERE d.state = 'live' AND d.source = 'slack'
    UNION ALL
    SELECT (SELECT min(d.tags ->> 'channel') FROM documents AS d WHERE d.state = 'live' AND d.source = 'slack' AND d.tags ->> 'channel' > c.name)
    FROM channels AS c
    WHERE c.name IS NOT NULL
),

places AS MATERIALIZED (
    SELECT min(d.doc_id::text) AS doc_id
    FROM checked_documents AS d
    WHERE
        d.state = 'live'
        AND d.folders <> '[]'
        AND d.permissions && %(principals)s::text []
        AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
    GROUP BY d.source, d.collection_ids
)

SELECT
    'author' AS kind,
    a.name AS value,
    a.name,
    e.doc_id::text AS doc_id
FROM authors AS a
CROSS JOIN LATERAL (
    SELECT d.doc_id
    FROM checked_documents AS d
    WHERE
        d.author = a.name
        AND d.state = 'live'
        AND d.permissions && %(principals)s::text []
        AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
    LIMIT 1 -- noqa: AM09
) AS e
WHERE a.name IS NOT NULL
UNION ALL
SELECT
    'channel' AS kind,
    c.name AS value,
    c.name,
    e.doc_id::text AS doc_id
FROM channels AS c
CROSS JOIN LATERAL (
    SELECT d.doc_id
    FROM checked_documents AS d
    WHERE
        d.tags ->> 'channel' = c.name
        AND d.source = 'slack'
        AND d.state = 'live'
        AND d.permissions && %(principals)s::text []
        AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
    LIMIT 1 -- noqa: AM09
) AS e
WHERE c.name IS NOT NULL
UNION ALL
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
