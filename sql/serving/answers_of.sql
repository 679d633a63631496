-- Purpose: a page of the questions that someone asked, newest first. Parameters: email, before_at and before_id (the last one of the page
-- before, or null), most. Grain: answer. Index: answers_email.
SELECT
    a.answer_id::text AS answer_id,
    a.created_at,
    a.question AS query,
    a.found,
    a.mode,
    a.shared_at
FROM answers AS a
WHERE
    a.email = %(email)s
    AND (%(before_at)s::timestamptz IS NULL OR (a.created_at, a.answer_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
ORDER BY a.created_at DESC, a.answer_id DESC
LIMIT %(most)s
