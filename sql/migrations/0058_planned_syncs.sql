-- A large sync of a source is divided: the sync of the whole source creates others, each of some of the partitions.
ALTER TABLE sync_jobs ADD COLUMN planned_by uuid;
COMMENT ON COLUMN sync_jobs.planned_by IS 'the sync of the whole source that left these partitions to this one; null: none';
