-- Purpose: the latest answers that a person was given in a thread before a question, newest first. Parameters: channel, thread, ts, account,
-- most. Grain: answer. Index: slack_questions_thread.
SELECT answer_id::text AS answer_id
FROM slack_questions
WHERE
    channel = %(channel)s AND thread = %(thread)s AND ts < %(ts)s AND account = %(account)s AND answer_id IS NOT NULL
ORDER BY ts DESC
LIMIT %(most)s
