-- What `concordance restore` changes in the database of a backup, whose state is older than what happened since.

-- name: end_sign_ins
-- End all sessions, connections of agents and links that sign in: some may have ended after the backup. Returns the number of sessions.
-- Grain: one row.
WITH agents_ended AS (DELETE FROM agents),

links_used AS (UPDATE sign_ins SET claim = gen_random_uuid() WHERE claim IS NULL),

ended AS (DELETE FROM sessions RETURNING session_id)

SELECT count(*)::integer AS ended FROM ended;

-- name: doubt_lake!
-- The lake may have rows that were written after the dump: list the keys of its tables again, from an hour before the newest that the dump
-- knows. Grain: table. Reads all keys.
UPDATE lake_tables AS t SET
    complete = FALSE,
    after = (SELECT max(k.at) - interval '1 hour' FROM lake_keys AS k WHERE k.lake_table = t.number)
WHERE t.complete;
