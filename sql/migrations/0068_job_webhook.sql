-- What the webhook of jobs was told of a sync that has ended: the attempts so far, when the next is due, and when one was accepted or the
-- last was made. Grain of sync_jobs: sync.
ALTER TABLE sync_jobs
ADD COLUMN webhook_attempts integer NOT NULL DEFAULT 0,
ADD COLUMN webhook_next_at timestamptz NOT NULL DEFAULT 'epoch',
ADD COLUMN webhook_told_at timestamptz;
CREATE INDEX sync_jobs_untold ON sync_jobs (completed_at) WHERE webhook_told_at IS NULL AND completed_at IS NOT NULL;
