-- Purpose: record the message that holds the reply to a question. Parameters: channel, ts, reply_ts. Grain: question. Index: primary key.
UPDATE slack_questions SET reply_ts = %(reply_ts)s
WHERE channel = %(channel)s AND ts = %(ts)s
