-- lists: false if the job does not list its source, and so says nothing about whether syncs of it succeed.
ALTER TABLE sync_jobs ADD COLUMN lists boolean NOT NULL DEFAULT TRUE;
