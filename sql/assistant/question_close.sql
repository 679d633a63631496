-- Purpose: close a question and delete its text. Parameters: channel, ts, outcome, answer_id (null: there is no answer). Grain: question.
-- Index: primary key.
UPDATE slack_questions SET outcome = %(outcome)s, answer_id = %(answer_id)s::uuid, question = NULL, leased_until = NULL
WHERE channel = %(channel)s AND ts = %(ts)s
