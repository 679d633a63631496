-- Purpose: prolong the lease of a question. Parameters: channel, ts, lease_seconds. Grain: question. Index: primary key.
UPDATE slack_questions SET leased_until = now() + make_interval(secs => %(lease_seconds)s)
WHERE channel = %(channel)s AND ts = %(ts)s AND outcome IS NULL
