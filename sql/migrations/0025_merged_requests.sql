-- A sync requested while one of its source runs is added to it: what to list once more (more_full is null if nothing is), and whether
-- the running sync still looks for such requests.
ALTER TABLE sync_jobs
ADD COLUMN accepts boolean NOT NULL DEFAULT FALSE,
ADD COLUMN more_full boolean,
ADD COLUMN more_partitions text [];
