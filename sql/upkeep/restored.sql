-- What `concordance restore` changes in the database of a backup, whose state is older than what happened since.

-- name: end_sign_ins
-- End all sessions, connections of agents and links that sign in: some may have ended after the backup. Returns the number of sessions.
-- Grain: one row.
WITH agents_ended AS (DELETE FROM agents),

links_used AS (UPDATE sign_ins SET claim = gen_random_uuid() WHERE claim IS NULL),

ended AS (DELETE FROM sessions RETURNING session_id)

SELECT count(*)::integer AS ended FROM ended;
