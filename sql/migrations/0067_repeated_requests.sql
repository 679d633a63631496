-- Requests with an Idempotency-Key, and the responses to those that succeeded. Grain: caller, route and key. Bound: a day, and a thousand
-- of a caller (`claim` in sql/repeated_requests.sql).
CREATE TABLE repeated_requests (
    -- A digest of caller, method, path and key.
    key_hash bytea PRIMARY KEY,
    email text NOT NULL,
    -- Of the request that is in progress, or was.
    claim uuid NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The digest and the length of its body. Null, as all below, while it is in progress.
    fingerprint bytea,
    size bigint,
    status integer,
    media_type text,
    body bytea
);
CREATE INDEX repeated_requests_expires ON repeated_requests (expires_at);
CREATE INDEX repeated_requests_email ON repeated_requests (email, claimed_at);
