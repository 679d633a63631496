-- Purpose: the authors and Slack channels of the documents that the caller may read, to understand names in a question and to find them
-- while typing, each with one such document. It lists all of them and does not depend on the name that was asked for, so that its duration
-- says nothing about a person or a channel.
-- Parameters: principals, fresh_since. Grain: kind and name. Index: documents_author, documents_channel, from one name to the next, each
-- with a look for a document that the caller may read.
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
