-- Purpose: end a session of a person. Parameters: session_id, email (null: anyone's). Grain: session. Index: primary key.
DELETE FROM sessions
WHERE session_id = %(session_id)s::uuid AND (%(email)s::text IS NULL OR email = %(email)s)
RETURNING email, provider, secrets
