-- Purpose: keep feedback on what this person asked: an answer of theirs, or a search of theirs. Returns no row for another's.
-- Parameters: feedback_id, email, answer_id, query_id, verdict, comment, expected_doc_id (null: not given). Grain: feedback.
-- Index: primary key of answers, answers_query, audit_log_query.
INSERT INTO feedback (feedback_id, email, answer_id, query_id, verdict, comment, expected_doc_id)
SELECT
    %(feedback_id)s::uuid,
    %(email)s,
    %(answer_id)s::uuid,
    %(query_id)s::uuid,
    %(verdict)s,
    %(comment)s,
    %(expected_doc_id)s::uuid
WHERE
    (
        %(answer_id)s::uuid IS NULL
        OR EXISTS (SELECT 1 FROM answers AS a WHERE a.answer_id = %(answer_id)s::uuid AND a.email = %(email)s)
    )
    AND (
        %(query_id)s::uuid IS NULL
        OR EXISTS (SELECT 1 FROM answers AS a WHERE a.query_id = %(query_id)s::uuid AND a.email = %(email)s)
        OR EXISTS (SELECT 1 FROM audit_log AS l WHERE l.query_id = %(query_id)s::uuid AND l.email = %(email)s)
    )
RETURNING feedback_id::text AS feedback_id
