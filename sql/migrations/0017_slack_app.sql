-- The Slack app whose bot reads the workspace, by which events are told from another app's; null while it is not known.
ALTER TABLE source_states ADD COLUMN bot_id text, ADD COLUMN app_id text;
