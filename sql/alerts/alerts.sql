-- name: lock_alerts$
-- Let no other transaction judge alerts until this one ends. Grain: one row.
SELECT pg_advisory_xact_lock(hashtext('alerts'))::text AS locked;

-- name: observe!
-- Store that conditions are true now. One that ended, or that nobody has seen for :clear_seconds before it fired, begins anew. Times after
-- now are from before the clock was set back.
-- Parameters: observed jsonb (rule, subject, severity, value, hold_seconds), clear_seconds. Grain: rule and subject. Index: primary key.
INSERT INTO alerts AS a (rule, subject, severity, value, hold_seconds)
SELECT
    o.rule,
    o.subject,
    o.severity,
    o.value,
    o.hold_seconds
FROM
    jsonb_to_recordset(:observed::jsonb)
        AS o (rule text, subject text, severity text, value double precision, hold_seconds double precision)
ON CONFLICT (rule, subject) DO UPDATE SET
    severity = excluded.severity,
    value = excluded.value,
    hold_seconds = excluded.hold_seconds,
    seen_at = now(),
    since = CASE
        WHEN
            a.resolved_at IS NOT NULL
            OR (a.fired_at IS NULL AND a.seen_at < now() - :clear_seconds::double precision * interval '1 second')
            THEN now()
        ELSE least(a.since, now())
    END,
    fired_at = CASE WHEN a.resolved_at IS NULL THEN a.fired_at END,
    noticed_at = CASE WHEN a.resolved_at IS NULL AND a.noticed_at IS NOT NULL THEN least(a.noticed_at, now()) END,
    resolved_at = NULL;

-- name: fire
-- Alerts that fire, or that have been firing for :repeat_seconds since their latest notice. Each is returned once. Grain: rule and subject.
UPDATE alerts SET
    fired_at = coalesce(fired_at, now()),
    noticed_at = now()
WHERE
    resolved_at IS NULL
    AND seen_at >= now() - :clear_seconds::double precision * interval '1 second'
    AND since <= now() - hold_seconds * interval '1 second'
    AND (noticed_at IS NULL OR noticed_at <= now() - :repeat_seconds::double precision * interval '1 second')
RETURNING rule, subject, severity, value, since, fired_at, resolved_at;

-- name: resolve
-- Alerts that nobody has seen for :clear_seconds, or since the clock was set back. Each is returned once. Grain: rule and subject.
UPDATE alerts SET
    since = least(since, now()),
    resolved_at = now()
WHERE
    fired_at IS NOT NULL AND resolved_at IS NULL
    AND abs(extract(EPOCH FROM now() - seen_at)) > :clear_seconds::double precision
RETURNING rule, subject, severity, value, since, fired_at, resolved_at;

-- name: forget_alerts!
-- Delete conditions that ended before they fired, and alerts that were resolved :days ago. Grain: rule and subject.
DELETE FROM alerts
WHERE
    (fired_at IS NULL AND seen_at < now() - :clear_seconds::double precision * interval '1 second')
    OR resolved_at < now() - :days::integer * interval '1 day';

-- name: add_notice!
-- Store a notice for the webhook, and drop all but the latest :most. Parameters: text, most. Grain: notice. Index: primary key.
WITH dropped AS (
    DELETE FROM alert_notices
    WHERE notice_id IN (SELECT n.notice_id FROM alert_notices AS n ORDER BY n.notice_id DESC OFFSET :most::integer - 1)
)

INSERT INTO alert_notices (text) VALUES (:text);

-- name: claim_notice^
-- Take the oldest notice if it is due, for one attempt: it is due again only after a pause that doubles with each attempt, from
-- :pause_seconds to an hour; a longer one shows that the clock was set back. Two processes never take the same attempt. Grain: one row or none. Index: primary key.
UPDATE alert_notices SET
    attempts = attempts + 1,
    next_at = now() + least(3600, :pause_seconds::double precision * 2 ^ least(attempts, 20)) * interval '1 second'
WHERE
    notice_id = (SELECT min(n.notice_id) FROM alert_notices AS n)
    AND NOT (next_at > now() AND next_at <= now() + interval '1 hour')
RETURNING notice_id, text, attempts;

-- name: postpone_notice!
-- Send a notice no sooner than in :seconds. Parameters: notice_id, seconds. Grain: notice. Index: primary key.
UPDATE alert_notices SET next_at = greatest(next_at, now() + :seconds::double precision * interval '1 second')
WHERE notice_id = :notice_id::bigint;

-- name: remove_notice!
-- Remove a notice that was accepted or given up. Parameters: notice_id. Grain: notice. Index: primary key.
DELETE FROM alert_notices WHERE notice_id = :notice_id::bigint;

-- name: waiting_notices$
-- Number of notices that the webhook has not accepted yet. Grain: one row.
SELECT count(*) AS notices FROM alert_notices;

-- name: current
-- Alerts that fire, the latest first. Grain: rule and subject. Index: none, there are few.
SELECT
    rule,
    subject,
    severity,
    value,
    since,
    fired_at,
    resolved_at
FROM alerts
WHERE fired_at IS NOT NULL AND resolved_at IS NULL
ORDER BY severity ASC, since DESC, rule ASC, subject ASC;

-- name: seen_set_up!
-- Keep when sources were first seen set up, and forget it of those that no longer are. Parameters: sources text[]. Grain: source.
-- Index: primary key.
WITH gone AS (
    UPDATE source_states SET set_up_at = NULL WHERE set_up_at IS NOT NULL AND source <> ALL(:sources::text [])
)

INSERT INTO source_states AS s (source, set_up_at)
SELECT
    n.name,
    now()
FROM unnest(:sources::text []) AS n (name)
WHERE NOT EXISTS (SELECT FROM source_states AS e WHERE e.source = n.name AND e.set_up_at IS NOT NULL)
ON CONFLICT (source) DO UPDATE SET set_up_at = excluded.set_up_at WHERE s.set_up_at IS NULL;

-- name: sync_health
-- What the latest syncs of each source show: syncs of the last six hours, documents and repeated calls of syncs of the last hour, and the
-- latest syncs of the whole source, which a good sync of a folder or channel says nothing about, nor a job that lists nothing.
-- Without a good one, seconds_ago is since the first sync was asked for, or else since the source was set up. running: a process works on
-- one, renews its lease, and has reported progress in the last two hours: a first sync takes days, and one that hangs renews its lease, too.
-- Grain: source. Index: sync_jobs_completed, sync_jobs_whole, sync_jobs_latest, partition_leases_owner.
WITH recent AS (
    SELECT
        source,
        count(*) FILTER (WHERE status = 'success') AS good,
        count(*) FILTER (WHERE status = 'failed') AS bad,
        sum(synced + failed) FILTER (WHERE completed_at > now() - interval '1 hour') AS documents,
        sum(failed) FILTER (WHERE completed_at > now() - interval '1 hour') AS failed,
        sum(retries) FILTER (WHERE completed_at > now() - interval '1 hour') AS retries,
        sum(retries_failed) FILTER (WHERE completed_at > now() - interval '1 hour') AS retries_failed
    FROM sync_jobs
    WHERE completed_at > now() - interval '6 hours'
    GROUP BY source
)

SELECT
    s.source,
    coalesce(r.good, 0) AS good,
    coalesce(r.bad, 0) AS bad,
    coalesce(r.documents, 0) AS documents,
    coalesce(r.failed, 0) AS failed,
    coalesce(r.retries, 0) AS retries,
    coalesce(r.retries_failed, 0) AS retries_failed,
    extract(
        EPOCH FROM now() - coalesce(
            g.completed_at,
            (SELECT o.requested_at FROM sync_jobs AS o WHERE o.source = s.source ORDER BY o.started_at ASC LIMIT 1),
            s.set_up_at
        )
    )::double precision AS seconds_ago,
    EXISTS (
        SELECT FROM sync_jobs AS w INNER JOIN partition_leases AS p ON w.lease = p.owner AND p.until > now()
        WHERE
            w.source = s.source AND w.status = 'running' AND w.partitions IS NULL AND w.lists
            AND coalesce(w.heartbeat_at, w.claimed_at) > now() - interval '2 hours'
    ) AS running,
    (
        SELECT count(*) FROM sync_jobs AS f
        WHERE f.source = s.source AND f.status = 'failed' AND f.partitions IS NULL AND f.lists
            AND f.started_at > coalesce(g.started_at, '-infinity')
    ) AS failures
FROM source_states AS s
LEFT JOIN recent AS r ON s.source = r.source
LEFT JOIN LATERAL (
    SELECT
        l.completed_at,
        l.started_at
    FROM sync_jobs AS l
    WHERE l.source = s.source AND l.status = 'success' AND l.partitions IS NULL AND l.lists
    ORDER BY l.started_at DESC
    LIMIT 1
) AS g ON TRUE;
