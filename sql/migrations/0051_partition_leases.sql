-- Who may write to the partitions of a source, until when. partition '': the whole source. source '': work of the installation, by its name.
-- fence: the number of the claim, which every writing transaction checks.
CREATE TABLE partition_leases (
    source text NOT NULL,
    partition text NOT NULL,
    owner text NOT NULL,
    fence bigint NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (source, partition)
);
CREATE INDEX partition_leases_owner ON partition_leases (owner);
CREATE SEQUENCE lease_fences;

-- Claim partitions of a source, and return the number of the claim; null if another claim of one of them has not lapsed. A whole source
-- conflicts with each of its partitions. held: the claim to which these are added, or null.
-- Claims of a source take turns, so that none overlooks another. A lapsed lease is deleted unless a transaction of its owner is writing:
-- that one has locked the key of the row.
CREATE FUNCTION claim_leases(of_source text, wanted text [], claimant text, held bigint, seconds double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    claim bigint := held;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('concordance.leases.' || of_source));
    IF held IS NOT NULL AND NOT EXISTS (
        SELECT FROM partition_leases AS l WHERE l.source = of_source AND l.owner = claimant AND l.fence = held
    ) THEN
        RETURN NULL;
    END IF;
    DELETE FROM partition_leases AS l
    USING (
        SELECT p.partition FROM partition_leases AS p
        WHERE p.source = of_source AND p.until <= now() AND p.owner <> claimant FOR UPDATE SKIP LOCKED
    ) AS lapsed
    WHERE l.source = of_source AND l.partition = lapsed.partition;
    IF EXISTS (
        SELECT FROM partition_leases AS l
        WHERE
            l.source = of_source AND l.owner <> claimant
            AND (l.partition = ANY(wanted) OR (of_source <> '' AND (l.partition = '' OR '' = ANY(wanted))))
    ) THEN
        RETURN NULL;
    END IF;
    claim := coalesce(held, nextval('lease_fences'));
    INSERT INTO partition_leases (source, partition, owner, fence, until)
    SELECT of_source, w.partition, claimant, claim, now() + make_interval(secs => seconds)
    FROM (SELECT DISTINCT unnest(wanted) AS partition) AS w
    ON CONFLICT (source, partition) DO UPDATE SET until = excluded.until;
    RETURN claim;
END
$$;

-- Several syncs of a source may run, of different partitions. At most one is of the whole source, and one takes requests.
DROP INDEX sync_jobs_one_running;
CREATE UNIQUE INDEX sync_jobs_whole_running ON sync_jobs (source) WHERE status = 'running' AND partitions IS NULL;
CREATE UNIQUE INDEX sync_jobs_accepting ON sync_jobs (source) WHERE status = 'running' AND accepts;
CREATE INDEX sync_jobs_running ON sync_jobs (source) WHERE status = 'running';
ALTER TABLE sync_jobs ADD COLUMN lease text;
COMMENT ON COLUMN sync_jobs.lease IS 'owner of the leases of the process that has claimed the job';
