-- Why documents were skipped, by partition (`source_skips`). Before Postgres 18, which looks up each partition in `documents_partition`,
-- all documents were read.

CREATE INDEX documents_skipped ON documents (source, partition) WHERE state IN ('skipped', 'failed');
