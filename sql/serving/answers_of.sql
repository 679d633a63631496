-- Purpose: a page of the questions that someone asked, newest first. Parameters: email, before_at and before_id (the last one of the page
-- before, or null), contains (a part of the question, in lower case, or null), most. Grain: answer. Index: answers_email.
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
    AND (%(contains)s::text IS NULL OR strpos(lower(a.question), %(contains)s::text) > 0)
    AND (%(before_at)s::timestamptz IS NULL OR (a.created_at, a.answer_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
ORDER BY a.created_at DESC, a.answer_id DESC
LIMIT %(most)s
