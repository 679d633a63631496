-- Purpose: an answer, for the user who asked, or for anyone once it is shared. Parameters: answer_id, email. Grain: answer.
-- Index: primary key of answers.
SELECT
    answer_id::text AS answer_id,
    query_id::text AS query_id,
    email,
    created_at,
    shared_at,
    question,
    standalone,
    answer,
    found,
    mode,
    model,
    sources,
    sentences,
    removed_citations,
    warnings,
    completed,
    latency_ms,
    erased_at IS NOT NULL AS erased
FROM answers
WHERE answer_id = %(answer_id)s::uuid AND (email = %(email)s OR shared_at IS NOT NULL)
