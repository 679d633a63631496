-- Purpose: end all sessions of a person. Parameters: email. Grain: session. Index: sessions_email.
DELETE FROM sessions
WHERE email = %(email)s
RETURNING session_id::text AS session_id
