-- Requests with an Idempotency-Key. Grain: caller, route and key.

-- name: claim!
-- Claim a key for a request, and drop what has expired and all but the latest `most` of the caller. Stores nothing if the key is taken,
-- unless it is by this claim or its request has been in progress since before `lost_before`. Parameters: key_hash, email, claim, now, expires_at, lost_before,
-- most. Grain: key. Indexes: primary key, repeated_requests_expires, repeated_requests_email.
WITH expired AS (
    DELETE FROM repeated_requests WHERE key_hash != :key_hash::bytea AND expires_at <= :now
),

older AS (  -- apart, since no index serves both
    DELETE FROM repeated_requests
    WHERE
        key_hash != :key_hash::bytea
        AND key_hash IN (
            SELECT r.key_hash FROM repeated_requests AS r
            WHERE r.email = :email
            ORDER BY r.claimed_at DESC
            OFFSET :most::integer - 1
        )
)

INSERT INTO repeated_requests (key_hash, email, claim, claimed_at, expires_at)
VALUES (:key_hash::bytea, :email, :claim::uuid, :now, :expires_at)
ON CONFLICT (key_hash) DO UPDATE SET
    claim = excluded.claim,
    claimed_at = excluded.claimed_at,
    expires_at = excluded.expires_at,
    fingerprint = NULL,
    size = NULL,
    status = NULL,
    media_type = NULL,
    body = NULL
WHERE
    repeated_requests.expires_at <= :now
    OR repeated_requests.claim = excluded.claim
    OR (repeated_requests.status IS NULL AND repeated_requests.claimed_at < :lost_before);

-- name: stored^
-- The response to the request that took a key, if it has succeeded. Parameters: key_hash. Grain: one row or none. Index: primary key.
SELECT
    fingerprint,
    size,
    status,
    media_type,
    body
FROM repeated_requests
WHERE key_hash = :key_hash::bytea AND status IS NOT NULL;

-- name: finish!
-- Store the response to a request that has succeeded. Parameters: key_hash, claim, fingerprint, size, status, media_type, body. Grain: key.
-- Index: primary key.
UPDATE repeated_requests SET
    fingerprint = :fingerprint::bytea,
    size = :size::bigint,
    status = :status::integer,
    media_type = :media_type,
    body = :body::bytea
WHERE key_hash = :key_hash::bytea AND claim = :claim::uuid;

-- name: release!
-- Give a key back whose request did not succeed. Parameters: key_hash, claim. Grain: key. Index: primary key.
DELETE FROM repeated_requests
WHERE key_hash = :key_hash::bytea AND claim = :claim::uuid;
