-- What `concordance restore` changes in the database of a backup, whose state is older than what happened since.

-- name: end_sessions!
-- End all sessions: some may have ended after the backup. Grain: session.
DELETE FROM sessions;

-- name: end_agents!
-- End all connections of agents, likewise. Grain: agent.
DELETE FROM agents;

-- name: end_links!
-- End all links that sign in, likewise. Grain: link.
UPDATE sign_ins SET claim = gen_random_uuid() WHERE claim IS NULL;

-- name: doubt_lake!
-- The lake may have rows that were written after the dump: list the keys of its tables again, from an hour before the newest that the dump
-- knows. Grain: table. Reads all keys.
UPDATE lake_tables AS t SET
    complete = FALSE,
    after = (SELECT max(k.at) - interval '1 hour' FROM lake_keys AS k WHERE k.lake_table = t.number)
WHERE t.complete;
