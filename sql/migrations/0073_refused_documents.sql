-- Documents that were refused, and whose reason is gone, are read again when they are listed. Until now they stayed skipped, with new metadata.

UPDATE documents SET version = ''
WHERE state = 'skipped' AND stage = 'raw' AND content_hash IS NULL AND mime_type <> '' AND source NOT IN ('upload', 'push');
