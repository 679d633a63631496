-- A copy of a managed document (ingested by its place in a file root) never outlives the rights of its original.
-- origin: the original's doc_id. origin_via: the caller's principals that let the caller read the original when it was copied.
-- origin_readers: who may read the original, as of its last sync. taken_down_at: an administrator removed the upload for good.
ALTER TABLE uploads
ADD COLUMN origin uuid,
ADD COLUMN origin_via text [] NOT NULL DEFAULT '{}',
ADD COLUMN origin_readers text [] NOT NULL DEFAULT '{}',
ADD COLUMN taken_down_at timestamptz;
CREATE INDEX uploads_origin ON uploads (origin) WHERE origin IS NOT NULL;
