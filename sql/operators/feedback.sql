-- Purpose: a page of the answers that were marked not useful and not marked useful later, newest first, and whether their questions are in
-- the question set. Parameters: before_at and before_id (the last one of the page before, or null), most. Grain: feedback.
-- Indexes: feedback_at, primary key of answers, questions_once.
SELECT
    f.feedback_id::text AS feedback_id,
    f.created_at,
    f.email,
    a.question,
    a.standalone IS NOT NULL AS in_conversation,
    a.found,
    q.state
FROM feedback AS f
INNER JOIN answers AS a ON f.answer_id = a.answer_id
LEFT JOIN questions AS q
    ON md5(a.question) = md5(q.question) AND f.email = q.email AND NOT q.never
WHERE
    f.verdict = 'bad'
    AND (
        %(before_at)s::timestamptz IS NULL
        OR (f.created_at, f.feedback_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid)
    )
    AND NOT EXISTS (
        SELECT 1
        FROM feedback AS later
        WHERE
            later.answer_id = f.answer_id
            AND later.email = f.email
            AND (later.created_at, later.feedback_id) > (f.created_at, f.feedback_id)
    )
ORDER BY f.created_at DESC, f.feedback_id DESC
LIMIT %(most)s
