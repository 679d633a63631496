-- Indexes for quotas: what one person keeps in uploads, and what of it waits to be indexed.
CREATE INDEX uploads_owner ON uploads (owner);
CREATE INDEX ingest_jobs_document ON ingest_jobs (doc_id, change);
CREATE INDEX documents_waiting ON documents (owner) WHERE source = 'upload' AND state = 'live' AND indexed_content IS NULL;
