-- Token buckets of limits and rates that all processes share. Grain: bucket, named by a digest of the limit and of whom it limits.
-- tokens: at the time `at`, below 0 while a service asked us to wait. granted: what the latest statement got. full_at: when the bucket is
-- full again, so that its row says nothing. Unlogged: after a crash of Postgres the buckets are full. Bound: `prune_rate_buckets`.
CREATE UNLOGGED TABLE rate_buckets (
    bucket bytea PRIMARY KEY,
    tokens double precision NOT NULL,
    granted integer NOT NULL,
    at timestamptz NOT NULL,
    full_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Turns of the language model that are taken now. Grain: model. Each holder has its turn until its time, unless it is renewed.
CREATE UNLOGGED TABLE model_turns (
    model bytea PRIMARY KEY,
    holders uuid [] NOT NULL,
    until timestamptz [] NOT NULL
) WITH (fillfactor = 50);

-- Parts of the month's embedding budget that syncs have reserved and not yet spent. Grain: reservation. One of a sync that was killed
-- ends by its time.
CREATE TABLE embedding_reservations (
    reservation_id uuid PRIMARY KEY,
    month text NOT NULL,
    cost_usd double precision NOT NULL,
    until timestamptz NOT NULL
);
