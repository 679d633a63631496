-- Contents that were taken down, to be refused under any name.
CREATE INDEX uploads_taken_down ON uploads (owner, content_hash) WHERE taken_down_at IS NOT NULL;
