-- Purpose: ratings that are not stored as feedback yet, oldest first. Parameters: most. Grain: question. Index: slack_questions_unrated.
SELECT
    channel,
    ts,
    thread,
    account,
    answer_id::text AS answer_id,
    verdict
FROM slack_questions
WHERE verdict IS NOT NULL AND rated_at IS NULL AND answer_id IS NOT NULL
ORDER BY received_at
LIMIT %(most)s
