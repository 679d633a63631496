-- Purpose: store feedback on one of the user's own answers or searches, in place of what the user said of it before. Returns the ID of
-- the feedback, no row for another user's answer or search.
-- If it names a document (the expected one; with `good`, those that the answer cites) which this user may read now, the user's
-- question becomes a proposed question for the question set. The result does not show this. A question in a conversation does not: as it was
-- asked, it says too little, and what it was rewritten to may hold what earlier answers say, which curators must not see.
-- Parameters: feedback_id, email, principals, answer_id, query_id, verdict, comment, expected_doc_id (null: not given).
-- Grain: feedback. Index: primary keys of answers and documents, answers_query, audit_log_query.
WITH rateable AS (
    SELECT
        a.answer_id,
        a.question,
        a.standalone IS NOT NULL AS in_conversation,
        a.sources,
        0 AS choice
    FROM answers AS a
    WHERE a.answer_id = %(answer_id)s::uuid AND a.email = %(email)s
    UNION ALL
    SELECT
        a.answer_id,
        a.question,
        a.standalone IS NOT NULL AS in_conversation,
        a.sources,
        1 AS choice
    FROM answers AS a
    WHERE a.query_id = %(query_id)s::uuid AND a.email = %(email)s
    UNION ALL
    SELECT
        NULL AS answer_id,
        l.query AS question,
        FALSE AS in_conversation,
        '[]'::jsonb AS sources,
        2 AS choice
    FROM audit_log AS l
    WHERE l.query_id = %(query_id)s::uuid AND l.email = %(email)s
),

stored AS (
    INSERT INTO feedback (feedback_id, email, answer_id, query_id, verdict, comment, expected_doc_id)
    SELECT
        %(feedback_id)s::uuid,
        %(email)s,
        -- an answer that is named by its search is the same answer
        coalesce(%(answer_id)s::uuid, (SELECT max(a.answer_id::text)::uuid FROM rateable AS a WHERE a.choice = 1)),
        %(query_id)s::uuid,
        %(verdict)s,
        %(comment)s,
        %(expected_doc_id)s::uuid
    WHERE
        (%(answer_id)s::uuid IS NULL OR EXISTS (SELECT 1 FROM rateable AS a WHERE a.choice = 0))
        AND (%(query_id)s::uuid IS NULL OR EXISTS (SELECT 1 FROM rateable AS a WHERE a.choice > 0))
    ON CONFLICT (email, (coalesce(answer_id, query_id))) DO UPDATE SET
        created_at = now(),
        query_id = excluded.query_id,
        verdict = excluded.verdict,
        comment = excluded.comment,
        expected_doc_id = excluded.expected_doc_id
    RETURNING feedback_id, email
),

rated AS (
    SELECT
        question,
        in_conversation,
        sources
    FROM rateable
    ORDER BY choice
    LIMIT 1
),

expected AS (
    SELECT %(expected_doc_id)s::uuid AS doc_id
    UNION
    SELECT (s.source ->> 'doc_id')::uuid AS doc_id
    FROM rated AS m
    CROSS JOIN LATERAL jsonb_array_elements(m.sources) AS s (source)
    WHERE %(expected_doc_id)s::uuid IS NULL AND %(verdict)s::text = 'good' AND (s.source ->> 'cited')::boolean
),

readable AS (
    SELECT array_agg(d.doc_id ORDER BY d.doc_id) AS doc_ids
    FROM documents AS d
    INNER JOIN expected AS h ON d.doc_id = h.doc_id
    WHERE d.state = 'live' AND d.permissions && %(principals)s::text []
),

groups AS (
    SELECT coalesce(array_agg(p.name ORDER BY p.name), '{}') AS names
    FROM unnest(%(principals)s::text []) AS p (name)
    WHERE
        starts_with(p.name, 'group:')
        -- groups from the directory are looked up at each evaluation
        AND NOT EXISTS (SELECT 1 FROM directory AS d WHERE d.email = %(email)s AND d.principal = p.name)
),

proposed AS (
    INSERT INTO questions (question, doc_ids, email, groups, state, origin, added_by)
    SELECT
        m.question,
        r.doc_ids,
        k.email,
        g.names,
        'proposed' AS state,
        'feedback' AS origin,
        k.email AS added_by
    FROM stored AS k
    CROSS JOIN rated AS m
    CROSS JOIN readable AS r
    CROSS JOIN groups AS g
    WHERE r.doc_ids IS NOT NULL AND NOT m.in_conversation AND length(m.question) BETWEEN 1 AND 1000
    ON CONFLICT (md5(question), email, never) DO NOTHING
)

SELECT feedback_id::text AS feedback_id FROM stored
