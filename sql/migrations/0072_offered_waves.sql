-- Waves of documents that a large sync offers to other runs, which parse, chunk and embed them. Grain: wave. Deleted when the sync that
-- offered it takes it back.
-- lease: owner of the lease of the run that has taken it; null: none has. results: what that run did, by stage; null: not ready.
CREATE TABLE offered_waves (
    job_id uuid NOT NULL REFERENCES sync_jobs (job_id) ON DELETE CASCADE,
    number bigint GENERATED ALWAYS AS IDENTITY,
    doc_ids uuid [] NOT NULL,
    lease text,
    taken_at timestamptz,
    results jsonb,
    PRIMARY KEY (job_id, number)
);

-- A sync that ends, whoever closes its job, withdraws what it offered.
CREATE FUNCTION withdraw_waves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM offered_waves AS o WHERE o.job_id = new.job_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER withdraw_waves AFTER UPDATE OF status ON sync_jobs
FOR EACH ROW WHEN (old.status = 'running' AND new.status <> 'running') EXECUTE FUNCTION withdraw_waves();
