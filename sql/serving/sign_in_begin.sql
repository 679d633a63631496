-- Purpose: record that a sign-in began, and delete those that were never finished.
-- Parameters: sign_in_id, requested_by, now, expires_at. Grain: sign-in. Index: primary key.
WITH expired AS (
    DELETE FROM sign_ins
    WHERE expires_at < %(now)s::timestamptz - interval '1 day'
)

INSERT INTO sign_ins (sign_in_id, requested_by, expires_at)
VALUES (%(sign_in_id)s::uuid, %(requested_by)s, %(expires_at)s)
