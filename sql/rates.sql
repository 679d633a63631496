-- Limits and rates that all processes share. Each statement is exact for any number at once: the second one waits for the row's lock and
-- sees what the first has left. Times are those of Postgres. A bucket's time is at most ten seconds ahead, which is more than concurrent
-- statements differ by: it was further ahead if the clock has been set back, and the bucket would not be refilled until that time.

-- name: take^
-- Take up to `wanted` whole tokens from a bucket, after giving back `returned` of earlier ones. A bucket holds `most` and is refilled
-- with `a_second`. Returns the tokens taken, and the seconds until there is one. Parameters: bucket, most, a_second, wanted, returned.
-- Grain: bucket. Index: primary key.
INSERT INTO rate_buckets AS b (bucket, tokens, granted, at, full_at)
SELECT
    :bucket::bytea,
    n.most - n.granted,
    n.granted,
    now(),
    now() + n.granted / :a_second::double precision * interval '1 second'
FROM (SELECT :most::double precision AS most, least(:wanted::integer, floor(:most::double precision))::integer AS granted) AS n
ON CONFLICT (bucket) DO UPDATE SET
    (tokens, granted, at, full_at) = (
        SELECT
            g.filled - g.granted,
            g.granted,
            greatest(now(), least(b.at, now() + interval '10 seconds')),
            greatest(now(), least(b.at, now() + interval '10 seconds')) + (:most::double precision - g.filled + g.granted) / :a_second::double precision * interval '1 second'
        FROM (
            SELECT
                f.filled,
                greatest(0, least(:wanted::integer, floor(f.filled + 1e-9)))::integer AS granted
            FROM (
                SELECT
                    least(
                        :most::double precision,
                        b.tokens + :returned::integer
                        + greatest(0, extract(EPOCH FROM now() - b.at)::double precision) * :a_second::double precision
                    ) AS filled
            ) AS f
        ) AS g
    )
RETURNING b.granted, greatest(0, (1 - b.tokens) / :a_second::double precision) AS seconds;

-- name: block!
-- Take what a bucket holds, and let the next token appear in `seconds`: a service asked to wait. Parameters: bucket, most, a_second,
-- seconds. Grain: bucket. Index: primary key.
INSERT INTO rate_buckets AS b (bucket, tokens, granted, at, full_at)
SELECT
    :bucket::bytea,
    n.tokens,
    0,
    now(),
    now() + (:most::double precision - n.tokens) / :a_second::double precision * interval '1 second'
FROM (SELECT 1 - :seconds::double precision * :a_second::double precision AS tokens) AS n
ON CONFLICT (bucket) DO UPDATE SET
    tokens = least(
        b.tokens + greatest(0, extract(EPOCH FROM now() - b.at)::double precision) * :a_second::double precision, excluded.tokens
    ),
    granted = 0,
    at = greatest(now(), least(b.at, now() + interval '10 seconds')),
    full_at = greatest(b.full_at, excluded.full_at);

-- name: take_turn$
-- Take a turn of a language model for `seconds`, or renew it; returns whether it was possible. At most `most` hold one. Turns whose time
-- has passed are free. Parameters: model, holder, most, seconds. Grain: model. Index: primary key.
INSERT INTO model_turns AS t (model, holders, until)
VALUES (
    :model::bytea, ARRAY[:holder::uuid], ARRAY[now() + :seconds::double precision * interval '1 second']
)
ON CONFLICT (model) DO UPDATE SET
    (holders, until) = (
        SELECT
            array_agg(n.holder),
            array_agg(n.until)
        FROM (
            (
                SELECT
                    h.holder,
                    h.until
                FROM unnest(t.holders, t.until) AS h (holder, until)
                WHERE h.until > now() AND h.holder <> :holder::uuid
                ORDER BY h.until DESC
            )
            UNION ALL
            SELECT
                excluded.holders [1],
                excluded.until [1]
            WHERE :most::integer > (
                SELECT count(*) FROM unnest(t.holders, t.until) AS h (holder, until)
                WHERE h.until > now() AND h.holder <> :holder::uuid
            )
        ) AS n
    )
RETURNING :holder::uuid = ANY(t.holders) AS taken;

-- name: leave_turn!
-- Give a turn back. Parameters: model, holder. Grain: model. Index: primary key.
UPDATE model_turns AS t SET
    (holders, until) = (
        SELECT
            coalesce(array_agg(h.holder), '{}'),
            coalesce(array_agg(h.until), '{}')
        FROM unnest(t.holders, t.until) AS h (holder, until)
        WHERE h.holder <> :holder::uuid
    )
WHERE t.model = :model::bytea;

-- name: lock_budget$
-- Let no other transaction reserve until this one ends, so that `reserve` sees what it has reserved. Grain: one row.
SELECT pg_advisory_xact_lock(hashtext('embedding budget'))::text AS locked;

-- name: reserve$
-- Reserve a part of the month's budget for a time, unless it does not suffice. Returns what is spent and reserved without it; a
-- reservation was made if its cost fits. Call `lock_budget` before, in the same transaction. Parameters: reservation_id, month, cost_usd,
-- budget, seconds. Grain: one row. Index: primary key.
WITH used AS (
    SELECT
        (SELECT cast(coalesce(sum(u.cost_usd), 0) AS double precision) FROM embedding_usage AS u WHERE u.month = :month)
        + (
            SELECT coalesce(sum(r.cost_usd), 0) FROM embedding_reservations AS r
            WHERE r.month = :month AND r.until > now()
        ) AS cost_usd
),

ended AS (DELETE FROM embedding_reservations WHERE until <= now()),

reserved AS (
    INSERT INTO embedding_reservations (reservation_id, month, cost_usd, until)
    SELECT
        :reservation_id::uuid,
        :month,
        :cost_usd::double precision,
        now() + :seconds::double precision * interval '1 second'
    FROM used AS u
    WHERE u.cost_usd + :cost_usd::double precision <= :budget::double precision + 1e-9
)

SELECT cost_usd FROM used;

-- name: extend!
-- Keep a reservation for a time from now on. Parameters: reservation_id, seconds. Grain: reservation. Index: primary key.
UPDATE embedding_reservations SET until = now() + :seconds::double precision * interval '1 second'
WHERE reservation_id = :reservation_id::uuid;

-- name: settle!
-- Book what was used, in place of the reservation. Parameters: reservation_id, month, model, texts, tokens, cost_usd. Grain: month, model.
WITH settled AS (DELETE FROM embedding_reservations WHERE reservation_id = :reservation_id::uuid)

INSERT INTO embedding_usage (month, model, texts, tokens, cost_usd)
VALUES (:month, :model, :texts, :tokens, :cost_usd)
ON CONFLICT (month, model) DO UPDATE SET
    texts = embedding_usage.texts + excluded.texts, tokens = embedding_usage.tokens + excluded.tokens,
    cost_usd = embedding_usage.cost_usd + excluded.cost_usd;

-- name: release!
-- Give a reservation back of which nothing was used. Parameters: reservation_id. Grain: reservation. Index: primary key.
DELETE FROM embedding_reservations WHERE reservation_id = :reservation_id::uuid;
