-- Purpose: claim the question that has waited longest, so that no other process answers it before the lease ends.
-- Parameters: lease_seconds. Grain: question. Index: slack_questions_open.
UPDATE slack_questions AS q SET leased_until = now() + make_interval(secs => %(lease_seconds)s), attempts = q.attempts + 1
WHERE (q.channel, q.ts) = (
    SELECT
        w.channel,
        w.ts
    FROM slack_questions AS w
    WHERE w.outcome IS NULL AND (w.leased_until IS NULL OR w.leased_until < now())
    ORDER BY w.received_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING
    q.channel,
    q.ts,
    q.team,
    q.account,
    q.thread,
    q.direct,
    coalesce(q.question, '') AS question,
    q.reply_ts,
    q.attempts,
    extract(EPOCH FROM now() - q.received_at)::float8 AS waited
