-- Statements of the service read as many rows after years of history, and in a large Slack, as on the first day.
-- Documents that somebody may read; deleted ones stay as history, and nothing asks for them by their readers.
CREATE INDEX documents_kept_permissions ON documents USING gin (permissions) WHERE state <> 'deleted';
DROP INDEX documents_permissions;
-- A message's thread, and a file, by the last part of their id.
CREATE INDEX documents_slack_name ON documents (split_part(source_id, '/', 3)) WHERE source = 'slack';
-- The conversation of a channel that went on at a moment.
CREATE INDEX documents_slack_moment ON documents (partition, created_at) WHERE
source = 'slack' AND mime_type = 'application/vnd.concordance.conversation+json' AND tags @> '{"thread": false}';
