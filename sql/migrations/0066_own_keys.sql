-- API keys that people make on their own page, and when any key was last used. Grain of api_keys: key. Bound: twenty valid ones of a
-- person (`insert_own` in sql/own_keys.sql), whose others are deleted when the next is made; the rest by commands.
ALTER TABLE api_keys
ADD COLUMN name text NOT NULL DEFAULT '',
-- What it may do. Null for keys of commands: everything that their person may.
ADD COLUMN scopes text [],
-- The provider of the session in which its person made it. Null for keys of commands.
ADD COLUMN provider text,
ADD COLUMN used_at timestamptz;
