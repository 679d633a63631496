-- Purpose: record that a rating was stored as feedback. Parameters: channel, ts. Grain: question. Index: primary key.
UPDATE slack_questions SET rated_at = now()
WHERE channel = %(channel)s AND ts = %(ts)s
