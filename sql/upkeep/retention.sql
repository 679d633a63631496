-- Retention: delete rows that are older than their setting allows, in bounded batches. Each statement returns the number deleted.
-- Parameters of all but the first: before, most.

-- name: time
-- Postgres's clock, which most of the rows have their times from: where another machine's is ahead, nothing is deleted early. One row.
SELECT clock_timestamp() AS now;

-- name: prune_answers!
-- Grain: answer. Index: answers_at.
DELETE FROM answers WHERE answer_id IN (SELECT answer_id FROM answers WHERE created_at < :before ORDER BY created_at LIMIT :most);

-- name: prune_slack_questions!
-- Grain: question asked in Slack. Index: slack_questions_received.
DELETE FROM slack_questions
WHERE (channel, ts) IN (SELECT channel, ts FROM slack_questions WHERE received_at < :before ORDER BY received_at LIMIT :most);

-- name: prune_questions!
-- Proposals that were not accepted; accepted questions stay until they are removed. Grain: question.
DELETE FROM questions
WHERE question_id IN (SELECT question_id FROM questions WHERE state = 'proposed' AND added_at < :before ORDER BY added_at LIMIT :most);

-- name: prune_conversations!
-- Grain: conversation. Index: conversations_at.
DELETE FROM conversations
WHERE conversation_id IN (SELECT conversation_id FROM conversations WHERE created_at < :before ORDER BY created_at LIMIT :most);

-- name: prune_feedback!
-- Grain: feedback. Index: feedback_at.
DELETE FROM feedback
WHERE feedback_id IN (SELECT feedback_id FROM feedback WHERE created_at < :before ORDER BY created_at LIMIT :most);

-- name: prune_sync_jobs!
-- Ended jobs, with their errors, except each source's latest one and its latest success. Grain: job. Index: sync_jobs_completed.
DELETE FROM sync_jobs
WHERE job_id IN (
    SELECT j.job_id
    FROM sync_jobs AS j
    WHERE
        j.completed_at < :before AND j.status <> 'running'
        AND EXISTS (SELECT 1 FROM sync_jobs AS l WHERE l.source = j.source AND l.started_at > j.started_at)
        AND (
            j.status <> 'success'
            OR EXISTS (
                SELECT 1 FROM sync_jobs AS l
                WHERE l.source = j.source AND l.status = 'success' AND l.started_at > j.started_at AND (l.lists OR NOT j.lists)
            )
        )
    ORDER BY j.completed_at
    LIMIT :most
);

-- name: prune_ingest_jobs!
-- Grain: request. Index: ingest_jobs_at.
DELETE FROM ingest_jobs
WHERE job_id IN (SELECT job_id FROM ingest_jobs WHERE created_at < :before ORDER BY created_at LIMIT :most);

-- name: prune_sync_errors!
-- Grain: error. Index: sync_errors_at.
DELETE FROM sync_errors
WHERE ctid = ANY(ARRAY(SELECT ctid FROM sync_errors WHERE at < :before ORDER BY at LIMIT :most));

-- name: prune_audit_log!
-- Grain: event. Index: audit_log_at.
DELETE FROM audit_log WHERE event_id IN (SELECT event_id FROM audit_log WHERE at < :before ORDER BY at LIMIT :most);

-- name: prune_grant_audit!
-- Grain: change of one principal on one document. Index: grant_audit_at.
DELETE FROM grant_audit WHERE id IN (SELECT id FROM grant_audit WHERE at < :before ORDER BY at LIMIT :most);

-- name: prune_rate_buckets!
-- Delete buckets that are full: a row says no more than none. Grain: bucket. Parameters: before, most.
DELETE FROM rate_buckets
WHERE bucket IN (SELECT bucket FROM rate_buckets WHERE full_at < :before ORDER BY full_at LIMIT :most FOR UPDATE SKIP LOCKED);

-- name: prune_repeated_requests!
-- Delete stored responses to requests with an Idempotency-Key that have expired. Grain: key. Index: repeated_requests_expires.
DELETE FROM repeated_requests
WHERE key_hash IN (SELECT key_hash FROM repeated_requests WHERE expires_at < :before ORDER BY expires_at LIMIT :most);

-- name: forget_checks!
-- Delete the check results of Dagster runs, except the latest of each check. Grain: check result. Parameters: run_ids.
DELETE FROM dagster.asset_check_executions
WHERE
    run_id = ANY(:run_ids)
    AND id NOT IN (SELECT max(c.id) FROM dagster.asset_check_executions AS c GROUP BY c.asset_key, c.check_name);
