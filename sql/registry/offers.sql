-- Waves of documents that a large sync offers to other runs. Grain: wave. Index: primary key.

-- name: offer
-- Offer a wave, and return its number.
INSERT INTO offered_waves (job_id, doc_ids) VALUES (:job_id, :doc_ids::uuid []) RETURNING number;

-- name: take
-- Take the wave that was offered first, unless the process of the sync has died. lease: owner of the caller's lease. No row if none is left.
UPDATE offered_waves AS o SET lease = :lease, taken_at = now()
WHERE o.job_id = :job_id AND o.number = (
    SELECT w.number
    FROM offered_waves AS w
    INNER JOIN sync_jobs AS j ON w.job_id = j.job_id AND j.status = 'running'
    INNER JOIN partition_leases AS l ON j.lease = l.owner AND l.until > now()
    WHERE w.job_id = :job_id AND w.lease IS NULL
    ORDER BY w.number
    LIMIT 1
    FOR UPDATE OF w SKIP LOCKED
)
RETURNING o.number, o.doc_ids::text [] AS doc_ids;

-- name: wanted
-- Whether the process of the sync lives and, with a number, still leaves that wave to this lease. One row.
SELECT (
    EXISTS (
        SELECT FROM sync_jobs AS j
        INNER JOIN partition_leases AS l ON j.lease = l.owner AND l.until > now()
        WHERE j.job_id = :job_id AND j.status = 'running'
    )
    AND (
        :number::bigint IS NULL
        OR EXISTS (SELECT FROM offered_waves AS o WHERE o.job_id = :job_id AND o.number = :number AND o.lease = :lease)
    )
) AS wanted;

-- name: ready!
-- Hand a wave back to the sync, unless that has taken it back. results jsonb: what was done, by stage.
UPDATE offered_waves SET results = :results::jsonb WHERE job_id = :job_id AND number = :number AND lease = :lease AND results IS NULL;

-- name: take_back
-- Take back waves that are ready, or whose run has died. rest: also those that no run has taken, and those taken this many seconds ago;
-- null: not these.
DELETE FROM offered_waves AS o
WHERE
    o.job_id = :job_id
    AND (
        o.results IS NOT NULL
        OR (o.lease IS NOT NULL AND NOT EXISTS (SELECT FROM partition_leases AS l WHERE l.owner = o.lease AND l.until > now()))
        OR (:rest::double precision IS NOT NULL AND (o.lease IS NULL OR o.taken_at < now() - make_interval(secs => :rest)))
    )
RETURNING o.number, coalesce(o.results, '{}') AS results;

-- name: offered
-- Waves of a sync that are still there.
SELECT number FROM offered_waves WHERE job_id = :job_id ORDER BY number;

-- name: waiting
-- Number of waves that no run has taken.
SELECT count(*) AS waves FROM offered_waves WHERE job_id = :job_id AND lease IS NULL;

-- name: end_offers!
-- Withdraw every wave of a sync.
DELETE FROM offered_waves WHERE job_id = :job_id;

-- name: ended_runs
-- Those of these leases whose runs have ended. Index: idx_run_tags of Dagster's own table.
SELECT r.value AS name
FROM dagster.run_tags AS r
INNER JOIN dagster.runs AS s ON r.run_id = s.run_id AND s.status IN ('SUCCESS', 'FAILURE', 'CANCELED')
WHERE r.key = 'concordance/preparing' AND r.value = ANY(:names::text [])
ORDER BY r.value;

-- name: working
-- Those of these leases that have not lapsed. Index: primary key of partition_leases.
SELECT partition FROM partition_leases WHERE source = :source AND partition = ANY(:names::text []) AND until > now() ORDER BY partition;
