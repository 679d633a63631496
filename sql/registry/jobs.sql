-- Sync jobs: one row per sync. Several of a source may run, of different partitions; at most one of them takes requests.

-- name: insert_job
-- Returns no row if a running sync is of one of these partitions, or takes requests as this one would. A sync of the whole source runs beside
-- those that an earlier one has planned. accepts: its run takes requests that are added to it.
INSERT INTO sync_jobs (source, partitions, full_sync, requested_by, accepts, status)
SELECT :source, :partitions::text [], :full_sync, :requested_by, :accepts::boolean, 'running'
WHERE NOT EXISTS (
    SELECT FROM sync_jobs AS j
    WHERE
        j.source = :source AND j.status = 'running'
        AND (
            j.partitions IS NULL OR j.partitions && :partitions::text []
            OR (:partitions::text [] IS NULL AND j.planned_by IS NULL)
            OR (j.accepts AND :accepts::boolean)
        )
)
ON CONFLICT DO NOTHING
RETURNING job_id::text AS job_id, started_at;

-- name: add_request
-- Add a request to the running sync of a source: the union of the partitions (null: all). Returns no row if none accepts requests.
UPDATE sync_jobs SET
    more_partitions = CASE
        WHEN :partitions::text [] IS NULL OR (more_full IS NOT NULL AND more_partitions IS NULL) THEN NULL
        ELSE ARRAY(SELECT DISTINCT p FROM unnest(coalesce(more_partitions, '{}') || :partitions::text []) AS p ORDER BY p)
    END,
    more_full = coalesce(more_full, FALSE) OR :full_sync
WHERE source = :source AND status = 'running' AND accepts
RETURNING job_id::text AS job_id, started_at;

-- name: take_requests
-- Return what was added to a sync and clear it; no row if nothing was. A sync to which one of the whole source was added becomes one.
WITH added AS (
    SELECT job_id, more_partitions, more_full FROM sync_jobs WHERE job_id = :job_id AND more_full IS NOT NULL FOR UPDATE
)

UPDATE sync_jobs AS j SET
    more_full = NULL,
    more_partitions = NULL,
    partitions = CASE
        WHEN
            a.more_partitions IS NOT NULL
            OR EXISTS (SELECT FROM sync_jobs AS w WHERE w.source = j.source AND w.status = 'running' AND w.partitions IS NULL)
            THEN j.partitions
    END
FROM added AS a
WHERE j.job_id = a.job_id
RETURNING a.more_partitions AS partitions, a.more_full AS full_sync;

-- name: take_unserved
-- Clear what was added to syncs of a source that have ended since without doing it, and return it without what the sync `job_id` does anyhow,
-- of `partitions` (null: all). No row unless a running sync accepts requests, which does not end before the transaction.
-- Grain: job. Index: sync_jobs_latest, sync_jobs_running.
WITH accepting AS (
    SELECT job_id FROM sync_jobs WHERE source = :source AND status = 'running' AND accepts FOR UPDATE
),

left_over AS (
    SELECT j.job_id, j.more_partitions, j.more_full, a.job_id AS accepting
    FROM sync_jobs AS j CROSS JOIN accepting AS a
    WHERE j.source = :source AND j.status <> 'running' AND j.more_full IS NOT NULL AND j.started_at > now() - interval '7 days'
    FOR UPDATE OF j
),

taken AS (
    UPDATE sync_jobs AS j SET more_full = NULL, more_partitions = NULL
    FROM left_over AS l
    WHERE j.job_id = l.job_id
    RETURNING l.more_partitions AS partitions, l.more_full AS full_sync, l.accepting
)

SELECT partitions, full_sync
FROM taken
WHERE
    accepting <> :job_id OR full_sync > :full_sync
    OR NOT (:partitions::text [] IS NULL OR coalesce(partitions <@ :partitions::text [], FALSE));

-- name: refuse_requests!
-- Accept no more requests, unless one was added that the sync has not taken.
UPDATE sync_jobs SET accepts = FALSE WHERE job_id = :job_id AND more_full IS NULL;

-- name: in_the_way
-- Running syncs that keep one of these partitions from starting (see `insert_job`), with their age in seconds. alive: the process that
-- has claimed the job has its lease, or had it until some seconds ago: one that was paused renews it unless another has claimed it.
-- Grain: job. Index: sync_jobs_running, partition_leases_owner.
SELECT
    j.job_id::text AS job_id, j.partitions, j.claimed_at, extract(EPOCH FROM now() - j.started_at)::double precision AS age,
    EXISTS (SELECT FROM partition_leases AS l WHERE l.owner = j.lease AND l.until > now() - interval '5 seconds') AS alive
FROM sync_jobs AS j
WHERE
    j.source = :source AND j.status = 'running'
    AND (
        j.partitions IS NULL OR j.partitions && :partitions::text []
        OR (:partitions::text [] IS NULL AND j.planned_by IS NULL)
        OR (j.accepts AND :accepts::boolean)
    )
ORDER BY j.started_at, j.job_id;

-- name: planned
-- Running syncs that a sync of the whole source has planned, as `in_the_way`. Grain: job. Index: sync_jobs_running.
SELECT
    j.job_id::text AS job_id, j.partitions, j.claimed_at, extract(EPOCH FROM now() - j.started_at)::double precision AS age,
    EXISTS (SELECT FROM partition_leases AS l WHERE l.owner = j.lease AND l.until > now() - interval '5 seconds') AS alive
FROM sync_jobs AS j
WHERE j.source = :source AND j.status = 'running' AND j.planned_by IS NOT NULL
ORDER BY j.started_at, j.job_id;

-- name: plan
-- Create a sync of partitions that the sync `planned_by` leaves to it.
INSERT INTO sync_jobs (source, partitions, full_sync, requested_by, accepts, status, planned_by)
VALUES (:source, :partitions, :full_sync, 'sync', FALSE, 'running', :planned_by)
RETURNING job_id::text AS job_id, started_at;

-- name: withdraw!
-- End a planned sync that no process has begun: the one that planned it does its work. Its run may have been created all the same.
UPDATE sync_jobs SET status = 'success', stage = 'done', completed_at = now()
WHERE job_id = :job_id AND status = 'running' AND claimed_at IS NULL AND planned_by IS NOT NULL;

-- name: delay_job!
-- Note that a job which no process has begun is about to be launched again. Changes no row if one has, or if it has ended.
UPDATE sync_jobs SET stage = 'delayed', started_at = now()
WHERE job_id = :job_id AND status = 'running' AND claimed_at IS NULL;

-- name: adopt_job
-- Take over a job that no process will begin, with a request of its own: the union of the partitions (null: all).
UPDATE sync_jobs SET
    stage = 'delayed',
    started_at = now(),
    partitions = CASE
        WHEN partitions IS NOT NULL AND :partitions::text [] IS NOT NULL
            THEN ARRAY(SELECT DISTINCT p FROM unnest(partitions || :partitions::text []) AS p ORDER BY p)
    END,
    full_sync = full_sync OR :full_sync
WHERE job_id = :job_id AND status = 'running' AND claimed_at IS NULL
RETURNING job_id::text AS job_id, started_at;

-- name: launched_run
-- The unfinished Dagster run of a job, if it waits in Dagster's queue or has been received: by a warm worker, by the code server, or as
-- a container of a cluster, which may start much later. A run that Dagster created but could not hand over, because the webserver or
-- Postgres failed in between, never starts.
-- Index: idx_run_tags of Dagster's own table.
SELECT r.run_id
FROM dagster.run_tags AS r
INNER JOIN dagster.runs AS s ON r.run_id = s.run_id AND s.status NOT IN ('SUCCESS', 'FAILURE', 'CANCELED')
WHERE
    r.key = 'concordance/job_id' AND r.value = :job_id
    AND (
        s.status = 'QUEUED'
        OR EXISTS (
            SELECT FROM dagster.run_tags AS p
            WHERE p.run_id = r.run_id AND p.key IN ('concordance/worker', '.dagster/grpc_info', 'dagster/image')
        )
    )
ORDER BY r.run_id
LIMIT 1;

-- name: job
-- What a job was asked to do, and its counts.
SELECT source, status, partitions, full_sync, planned_by IS NOT NULL AS planned, synced, failed, retries, retries_failed, error_message
FROM sync_jobs
WHERE job_id = :job_id;

-- name: claim_job!
-- The caller holds the leases of the job's partitions, with this owner.
UPDATE sync_jobs SET claimed_at = now(), heartbeat_at = now(), run_id = :run_id, lease = :lease
WHERE job_id = :job_id AND status = 'running';

-- name: lists_nothing!
-- Record that a job does not list its source.
UPDATE sync_jobs SET lists = FALSE WHERE job_id = :job_id;

-- name: progress!
-- Save the stage and counts of a running job, and that its process is alive.
UPDATE sync_jobs SET
    heartbeat_at = now(), stage = :stage, synced = :synced, skipped = :skipped, deleted = :deleted, failed = :failed,
    embedded = :embedded, tokens = :tokens, cost_usd = :cost_usd, documents = :documents, done = :done, passages = :passages,
    expected = :expected
WHERE job_id = :job_id;

-- name: finish_job!
-- Close a running job. It has failed if there is an error message; no failure is without a reason.
UPDATE sync_jobs SET
    status = CASE WHEN :error_message::text IS NULL THEN 'success' ELSE 'failed' END,
    completed_at = now(),
    stages = coalesce(:stages::jsonb, stages),
    error_message = CASE WHEN trim(:error_message::text) = '' THEN :unknown ELSE :error_message::text END
WHERE job_id = :job_id AND status = 'running';

-- name: fail_run_job!
-- Close the job of a run whose process died, claimed or not, and end its leases. If another run has claimed the job, it goes on.
WITH ended AS (
    UPDATE sync_jobs SET
        status = 'failed',
        completed_at = now(),
        error_message = CASE WHEN trim(:error_message::text) = '' THEN :unknown ELSE :error_message::text END
    WHERE status = 'running' AND (run_id = :run_id OR (job_id = :job_id::uuid AND claimed_at IS NULL))
    RETURNING lease
)

DELETE FROM partition_leases AS l USING ended AS e WHERE l.owner = e.lease;

-- name: record_error!
-- Grain: (job, document, stage).
INSERT INTO sync_errors (job_id, source_id, stage, reason, outcome)
VALUES (:job_id, :source_id, :stage, :reason, :outcome)
ON CONFLICT (job_id, source_id, stage) DO UPDATE SET reason = excluded.reason, outcome = excluded.outcome, at = now();

-- name: errors
-- The first errors of a stage. Grain: document. Parameters: job_id, stage, most.
SELECT source_id, stage, reason, outcome FROM sync_errors WHERE job_id = :job_id AND stage = :stage ORDER BY outcome, source_id LIMIT :most;

-- name: next_sequence
-- Reserve numbers for change rows in the lake, above the clock and all earlier ones. Returns the first. Processes take turns until the end
-- of their transaction: no two get the same numbers.
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('concordance.lake_sequence')))

SELECT setval('lake_sequence', greatest(nextval('lake_sequence'), :clock_ns::bigint) + :reserve::bigint) - :reserve::bigint FROM turn;

-- name: save_calls!
-- Save the number of API calls to the source. Parameters: job_id, calls jsonb (method -> number), retries, retries_failed, waited (seconds).
UPDATE sync_jobs SET calls = :calls::jsonb, retries = :retries, retries_failed = :retries_failed, waited = :waited WHERE job_id = :job_id;

-- name: retry_after
-- Seconds until work that waits may start a sync again, after consecutive failures of a source: 20 s after the first, then twice as long
-- after each, at most :longest, also if they seem to come because the clock was set back. Null: the last sync succeeded. One row.
SELECT (
    least(:longest::integer, 20 * 2 ^ least(count(*) - 1, 20))
    - extract(EPOCH FROM now() - max(least(j.completed_at, now())))
)::double precision AS seconds
FROM sync_jobs AS j
WHERE
    j.source = :source AND j.status = 'failed' AND j.planned_by IS NULL
    AND j.started_at > coalesce(
        (SELECT max(g.started_at) FROM sync_jobs AS g WHERE g.source = :source AND g.status = 'success' AND g.planned_by IS NULL),
        '-infinity'
    );

-- name: latest_start
-- When the latest sync of a source began. Grain: one row or none. Index: sync_jobs_latest.
SELECT started_at FROM sync_jobs
WHERE source = :source
ORDER BY started_at DESC
LIMIT 1;

-- name: synced_sources
-- Sources that were ever synced, whether or not the package that adds them is still installed; not those of people only. Grain: source.
SELECT source FROM source_states WHERE credentials <> '' ORDER BY source;
