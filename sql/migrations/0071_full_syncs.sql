-- A full sync or a backfill that is interrupted goes on with the next sync.

-- rewrite: the document's entry in the active collection is written again, although it may be as wanted.
ALTER TABLE index_work ADD COLUMN rewrite boolean NOT NULL DEFAULT FALSE;

-- reread: a full sync has not listed the partition to its end, so every document that is listed is fetched again.
ALTER TABLE partitions ADD COLUMN reread boolean NOT NULL DEFAULT FALSE;

-- Uploads follow the profile of the settings. Until now each kept the one that it was uploaded with, unless it was listed again.
UPDATE documents SET profile = 'default' WHERE source = 'upload' AND profile <> 'default';
