-- True while a provider leaves out the groups of a session's person because they are too many. Grain of sessions: session.
ALTER TABLE sessions ADD COLUMN groups_omitted boolean NOT NULL DEFAULT FALSE;
