-- Purpose: a page of the questions that someone asked, newest first. Parameters: email, before_at and before_id (the last one of the page
-- before, or null), most. Grain: answer. Index: answers_email.
SELECT
    answer_id::text AS answer_id,
    created_at,
    question,
    found,
    mode,
    shared_at
FROM answers
WHERE
    email = %(email)s
    AND (%(before_at)s::timestamptz IS NULL OR (created_at, answer_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
ORDER BY created_at DESC, answer_id DESC
LIMIT %(most)s
