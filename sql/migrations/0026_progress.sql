-- How far a sync is: documents that it has found to process so far, those it is done with, and passages it has indexed.
ALTER TABLE sync_jobs
ADD COLUMN documents integer NOT NULL DEFAULT 0,
ADD COLUMN done integer NOT NULL DEFAULT 0,
ADD COLUMN passages integer NOT NULL DEFAULT 0;
