-- Events of sources, from their arrival to the sync that has processed them. Grain: event, unless a statement says otherwise.

-- name: teams
-- Workspaces with users in the directory, as `slack:TEAM`. Grain: workspace.
SELECT DISTINCT principal FROM directory WHERE source = 'slack';

-- name: app^
-- The bot that reads a source, and its app, as far as they are known. Parameters: source.
SELECT bot_id, app_id FROM source_states WHERE source = :source;

-- name: save_app!
-- Parameters: source, bot_id, app_id.
UPDATE source_states SET bot_id = :bot_id, app_id = :app_id WHERE source = :source;

-- name: receive
-- Store an event. Parameters: event_id, source, partition or null (the whole source), kind, urgent (it hides something), asked bool (no sync
-- is to be requested for it). Returns the event unless it was received before.
INSERT INTO source_events (event_id, source, partition, kind, urgent, asked_at)
VALUES (:event_id, :source, :partition, :kind, :urgent, CASE WHEN :asked THEN now() END)
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: known_partition
-- A partition, if it was synced before and is not gone (stored; it has no cursor while it waits to be read from the beginning), or if a sync
-- runs, which may have read it and have saved nothing of it yet. Parameters: source, partition. Index: primary keys.
SELECT k.partition, k.stored
FROM (
    SELECT
        :partition::text AS partition,
        EXISTS (SELECT FROM partitions AS p WHERE p.source = :source AND p.partition = :partition AND p.lost_at IS NULL) AS stored
) AS k
WHERE k.stored OR EXISTS (SELECT FROM partition_leases AS l WHERE l.source = :source);

-- name: lock_files
-- Lock events of files until the end of the transaction: a sync saves files either before or after it.
SELECT pg_advisory_xact_lock(hashtext('concordance.events.'));

-- name: holders
-- Channels in which a file was shared. Partition '': any other, if a sync runs, which may have read it there and not saved it yet.
-- Parameters: file (its key in the ledger). Index: primary keys. Grain: channel.
SELECT p.partition, TRUE AS stored
FROM partitions AS p
INNER JOIN source_memory AS m ON p.source = m.source AND p.partition = m.partition AND m.key = :file
WHERE p.source = 'slack'
UNION ALL
SELECT '' AS partition, FALSE AS stored
WHERE EXISTS (SELECT FROM partition_leases AS l WHERE l.source = 'slack')
ORDER BY partition;

-- name: touch!
-- Mark what the next sync of a channel must read again. Parameters: partition, key, value jsonb.
INSERT INTO source_memory (source, partition, key, value) VALUES ('slack', :partition, :key, :value::jsonb)
ON CONFLICT DO NOTHING;

-- name: save_begins
-- Keep events of a channel, and those of files, from being recorded until the transaction ends. Call it first: an event locks its channel,
-- then documents. Parameters: partition.
SELECT pg_advisory_xact_lock(hashtext('concordance.events.' || :partition))
FROM pg_advisory_xact_lock_shared(hashtext('concordance.events.'));

-- name: take_over!
-- Let a channel that has come to hold files wait for what was reported of them before. Parameters: partition, keys text[] (of its memory).
-- Index: primary key.
INSERT INTO source_memory (source, partition, key, value)
SELECT e.source, :partition, e.key, e.value
FROM source_memory AS e
INNER JOIN source_memory AS f ON f.source = e.source AND f.partition = :partition AND f.key = 'f:' || (e.value ->> 'file')
WHERE e.source = 'slack' AND e.partition = '' AND e.key >= 'e:' AND e.key < 'e;' AND f.key = ANY(:keys)
ON CONFLICT DO NOTHING;

-- name: request!
-- Have a sync requested for events that no one has asked one for: a partition that is not stored yet may never be, and what was taken over
-- was not reported of the partition. Parameters: source, partition. Index: primary keys.
INSERT INTO source_events AS s (event_id, source, partition, kind, urgent)
SELECT m.source || ':' || substr(m.key, 3) || ':' || m.partition, m.source, m.partition, 'stored', TRUE
FROM source_memory AS m
WHERE
    m.source = :source AND m.partition = :partition AND m.key >= 'e:' AND m.key < 'e;'
    AND (
        NOT EXISTS (
            SELECT FROM partitions AS p WHERE p.source = m.source AND p.partition = m.partition AND p.lost_at IS NULL
        )
        OR NOT EXISTS (
            SELECT FROM source_events AS k WHERE k.event_id = m.source || ':' || substr(m.key, 3) || ':' || m.partition
        )
    )
ORDER BY m.key
ON CONFLICT (event_id) DO UPDATE SET asked_at = NULL, received_at = now();

-- name: drop_unread!
-- Delete what was recorded while another sync ran and no channel waits for, unless another one runs now. Call it before anything is read.
-- Parameters: source, owner (of the caller's leases). Index: source_memory_events.
WITH unread AS (
    DELETE FROM source_memory AS m
    WHERE
        m.source = :source AND m.key >= 'e:' AND m.key < 'e;'
        AND NOT EXISTS (
            SELECT FROM partitions AS p WHERE p.source = m.source AND p.partition = m.partition AND p.lost_at IS NULL
        )
        AND NOT EXISTS (SELECT FROM partition_leases AS l WHERE l.source = :source AND l.owner <> :owner)
    RETURNING m.partition, substr(m.key, 3) AS event_id
)

DELETE FROM departures AS g USING unread AS u
WHERE g.source = :source AND g.partition = u.partition AND g.event_id = u.event_id;

-- name: hide
-- Hide the documents that a channel's waiting events concern; see the function. Parameters: partition. Grain: document.
SELECT h::text AS doc_id FROM hide_touched(:partition) AS h;

-- name: hide_for
-- Hide the documents of a channel that one event concerns. Parameters: partition, event_id. Grain: document.
SELECT h::text AS doc_id FROM hide_touched(:partition, :event_id) AS h;

-- name: keep_accounts!
-- Replace the email addresses of a source's accounts. Parameters: source, rows jsonb (account, email). Grain: account.
WITH given AS (SELECT r.account, r.email FROM jsonb_to_recordset(:rows::jsonb) AS r (account text, email text)),

gone AS (DELETE FROM source_accounts WHERE source = :source AND account NOT IN (SELECT given.account FROM given))

INSERT INTO source_accounts AS a (source, account, email)
SELECT :source, given.account, given.email FROM given
ON CONFLICT (source, account) DO UPDATE SET email = excluded.email WHERE a.email <> excluded.email;

-- name: depart
-- Revoke a former member's access to a channel, unless it is the workspace that gives it. Documents may not name the member yet: a sync may
-- have read that the member was there, and not have stored it. Parameters: partition, account, event_id.
-- Returns the remaining readers of each document. Grain: document.
WITH gone AS (
    INSERT INTO departures (source, partition, email, event_id)
    SELECT a.source, :partition, a.email, :event_id FROM source_accounts AS a
    WHERE
        a.source = 'slack' AND a.account = :account
        AND NOT EXISTS (
            SELECT 1
            FROM documents AS d
            INNER JOIN directory AS m ON m.source = d.source AND m.email = a.email AND d.permissions @> ARRAY[m.principal]
            WHERE d.source = 'slack' AND d.partition = :partition AND d.state <> 'deleted'
        )
    ON CONFLICT DO NOTHING
    RETURNING email
)

SELECT
    d.doc_id::text AS doc_id,
    ARRAY(
        SELECT r.email FROM unnest(d.permissions) AS r (email)
        WHERE
            r.email <> g.email
            AND NOT EXISTS (
                SELECT 1 FROM departures AS b WHERE b.source = 'slack' AND b.partition = :partition AND b.email = r.email
            )
    ) AS permissions
FROM gone AS g
INNER JOIN documents AS d ON d.source = 'slack' AND d.partition = :partition AND d.permissions @> ARRAY[g.email]
WHERE d.state <> 'deleted' AND NOT EXISTS (SELECT 1 FROM hidden_documents AS h WHERE h.doc_id = d.doc_id);

-- name: departed
-- Those of these documents that are open to somebody who has left their channel. Parameters: partition, doc_ids. Grain: document.
SELECT d.doc_id::text AS doc_id
FROM documents AS d
WHERE
    d.doc_id = ANY(:doc_ids::uuid [])
    AND EXISTS (
        SELECT FROM departures AS g WHERE g.source = d.source AND g.partition = :partition AND g.email = ANY(d.permissions)
    );

-- name: members_read!
-- Delete departures from a partition whose members a sync has read after it processed the event. Parameters: source.
DELETE FROM departures AS g
USING partitions AS p
WHERE
    g.source = :source AND p.source = g.source AND p.partition = g.partition AND p.acl_checked_at > g.left_at
    AND NOT EXISTS (
        SELECT 1 FROM source_memory AS m
        WHERE m.source = g.source AND m.partition = g.partition AND m.key = 'e:' || g.event_id
    );

-- name: show!
-- Show documents again whose events a sync has processed and whose current content is indexed, unless their deletion waits for approval.
-- Parameters: source.
DELETE FROM hidden_documents AS h
USING documents AS d
WHERE
    d.doc_id = h.doc_id AND d.source = :source
    AND (
        d.state = 'deleted'
        OR EXISTS (SELECT FROM active_entries AS e WHERE e.doc_id = d.doc_id AND starts_with(e.content, d.content_key || '|'))
    )
    AND NOT EXISTS (
        SELECT 1 FROM source_memory AS m
        WHERE m.source = d.source AND m.partition = d.partition AND m.key = 'e:' || h.event_id
    )
    AND NOT EXISTS (SELECT 1 FROM held_deletions AS w WHERE w.source = d.source AND w.source_id = d.source_id);

-- name: forget!
-- Delete events so old that no source redelivers them. Parameters: days.
DELETE FROM source_events WHERE received_at < now() - make_interval(days => :days::integer);

-- name: waiting
-- Events without a requested sync, if one of them hides something or has waited long enough. Parameters: source, seconds.
-- Index: source_events_waiting.
SELECT event_id, partition, received_at FROM source_events
WHERE
    source = :source AND asked_at IS NULL
    AND EXISTS (
        SELECT 1 FROM source_events AS e
        WHERE
            e.source = :source AND e.asked_at IS NULL
            AND (e.urgent OR e.received_at < now() - make_interval(secs => :seconds))
    );

-- name: mark_requested!
-- Record that a sync was requested for events, but for those that came again since they were read: it may have read the source before that.
-- Parameters: event_ids text[], received timestamptz[] (of each event, when it was read). Index: primary key.
UPDATE source_events AS e SET asked_at = now()
FROM unnest(:event_ids::text [], :received::timestamptz []) AS r (event_id, received_at)
WHERE e.event_id = r.event_id AND e.received_at = r.received_at;

-- name: ask
-- Store a question. Parameters: channel, ts, event_id, team, account, thread, direct, question.
-- Returns the message's time unless it was stored before.
INSERT INTO slack_questions (channel, ts, event_id, team, account, thread, direct, question)
VALUES (:channel, :ts, :event_id, :team, :account, :thread, :direct, :question)
ON CONFLICT DO NOTHING
RETURNING ts;

-- name: rate
-- Store what the person who asked says of an answer; the first rating counts. Parameters: channel, reply_ts, account, verdict.
-- Returns the question's time unless it was rated before, or someone else asked. Index: slack_questions_reply.
UPDATE slack_questions SET verdict = :verdict
WHERE channel = :channel AND reply_ts = :reply_ts AND account = :account AND verdict IS NULL
RETURNING ts;
