-- Purpose: record that a provider's answer to a sign-in is used, and drop those that are too old to be used again. Stores nothing, and
-- returns 0 rows, if it was used before. Parameters: sign_in_id, provider, claim (of this request), now, expires_at. Grain: sign-in.
-- Index: primary key.
WITH expired AS (
    DELETE FROM sign_ins
    WHERE expires_at < %(now)s::timestamptz - interval '1 day'
)

INSERT INTO sign_ins (sign_in_id, requested_by, expires_at, claim)
VALUES (%(sign_in_id)s::uuid, %(provider)s, %(expires_at)s, %(claim)s::uuid)
ON CONFLICT (sign_in_id) DO UPDATE SET claim = excluded.claim
WHERE sign_ins.claim = excluded.claim
