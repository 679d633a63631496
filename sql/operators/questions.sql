-- Purpose: a page of the question set, oldest first, with the titles of its documents as far as the caller may read them.
-- Parameters: state (null: all), after (the last id of the page before), most, principals, fresh_since. Grain: question.
-- Indexes: primary keys of questions and documents.
SELECT
    q.question_id AS id,
    q.question,
    q.email,
    q.never,
    q.state,
    q.origin,
    q.added_at,
    cardinality(q.doc_ids) AS documents,
    coalesce(
        (
            SELECT array_agg(d.title ORDER BY d.title)
            FROM checked_documents AS d
            WHERE
                d.doc_id = ANY(q.doc_ids)
                AND d.state = 'live'
                AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
                AND d.acl_checked_at >= %(fresh_since)s
        ),
        '{}'
    ) AS titles
FROM questions AS q
WHERE q.question_id > %(after)s AND (%(state)s::text IS NULL OR q.state = %(state)s::text)
ORDER BY q.question_id
LIMIT %(most)s
