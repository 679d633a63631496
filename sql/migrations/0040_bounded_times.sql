-- Times that come from outside are from 1970-01-01 to 9999-12-30, as in resources/core/moments.py: Python cannot read those before the year
-- 1 and after 9999 back, so that one row stopped everything that reads its table. Stored times outside of the bounds are moved to them;
-- those that a source reported, which the next sync reports again, are cleared.
CREATE FUNCTION is_bounded(moment timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$ SELECT moment >= '1970-01-01 00:00:00+00' AND moment < '9999-12-31 00:00:00+00' $$;

CREATE FUNCTION nearest_bounded(moment timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
AS $$ SELECT greatest('1970-01-01 00:00:00+00', least(moment, '9999-12-30 23:59:59.999999+00')) $$;

UPDATE uploads SET created_at = nearest_bounded(created_at) WHERE NOT is_bounded(created_at);
UPDATE uploads SET modified_at = nearest_bounded(modified_at) WHERE NOT is_bounded(modified_at);
ALTER TABLE uploads
ADD CONSTRAINT uploads_created_at_bounded CHECK (is_bounded(created_at)),
ADD CONSTRAINT uploads_modified_at_bounded CHECK (is_bounded(modified_at));

UPDATE documents SET created_at = NULL WHERE NOT is_bounded(created_at);
UPDATE documents SET modified_at = NULL WHERE NOT is_bounded(modified_at);
UPDATE documents SET gone_at_source = NULL WHERE NOT is_bounded(gone_at_source);
ALTER TABLE documents
ADD CONSTRAINT documents_created_at_bounded CHECK (is_bounded(created_at)),
ADD CONSTRAINT documents_modified_at_bounded CHECK (is_bounded(modified_at)),
ADD CONSTRAINT documents_gone_at_source_bounded CHECK (is_bounded(gone_at_source));

UPDATE held_deletions SET source_time = NULL WHERE NOT is_bounded(source_time);
ALTER TABLE held_deletions
ADD CONSTRAINT held_deletions_source_time_bounded CHECK (is_bounded(source_time));

UPDATE deletion_receipts SET source_time = NULL WHERE NOT is_bounded(source_time);
ALTER TABLE deletion_receipts
ADD CONSTRAINT deletion_receipts_source_time_bounded CHECK (is_bounded(source_time));

UPDATE conversations SET asked_at = nearest_bounded(asked_at) WHERE NOT is_bounded(asked_at);
ALTER TABLE conversations
ADD CONSTRAINT conversations_asked_at_bounded CHECK (is_bounded(asked_at));

UPDATE directory SET read_at = nearest_bounded(read_at) WHERE NOT is_bounded(read_at);
ALTER TABLE directory
ADD CONSTRAINT directory_read_at_bounded CHECK (is_bounded(read_at));

UPDATE notification_channels SET expires_at = nearest_bounded(expires_at) WHERE NOT is_bounded(expires_at);
ALTER TABLE notification_channels
ADD CONSTRAINT notification_channels_expires_at_bounded CHECK (is_bounded(expires_at));

UPDATE api_keys SET expires_at = nearest_bounded(expires_at) WHERE NOT is_bounded(expires_at);
ALTER TABLE api_keys
ADD CONSTRAINT api_keys_expires_at_bounded CHECK (is_bounded(expires_at));

UPDATE revoked_tokens SET expires_at = nearest_bounded(expires_at) WHERE NOT is_bounded(expires_at);
ALTER TABLE revoked_tokens
ADD CONSTRAINT revoked_tokens_expires_at_bounded CHECK (is_bounded(expires_at));

DROP FUNCTION nearest_bounded;
