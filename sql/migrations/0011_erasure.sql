-- Erasure: what each receipt knows of each store, answers that quoted an erased document, and indexes for retention.
ALTER TABLE deletion_receipts
    ALTER COLUMN source_id DROP NOT NULL,
    -- when blobs, lake rows, answers and the registry's row were erased; null: still within CONCORDANCE_ERASE_AFTER
    ADD COLUMN erased_at timestamptz,
    -- store -> {"checked_at": time or null, "detail": text}; a store that nobody looked at is absent or has a null time
    ADD COLUMN stores jsonb NOT NULL DEFAULT '{}';
ALTER TABLE answers ADD COLUMN erased_at timestamptz;
ALTER TABLE conversations ADD COLUMN erased_at timestamptz;
CREATE INDEX deletion_receipts_at ON deletion_receipts (tombstone_at);
CREATE INDEX sync_jobs_completed ON sync_jobs (completed_at);
CREATE INDEX sync_errors_at ON sync_errors (at);
CREATE INDEX ingest_jobs_at ON ingest_jobs (created_at);
