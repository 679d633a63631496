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
-- Store an event. Parameters: event_id, source, partition or null (the whole source), kind, urgent (it hides something).
-- Returns the event unless it was received before.
INSERT INTO source_events (event_id, source, partition, kind, urgent)
VALUES (:event_id, :source, :partition, :kind, :urgent)
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: known_partition
-- Check whether a partition was synced before. Parameters: source, partition.
SELECT partition FROM partitions WHERE source = :source AND partition = :partition AND cursor IS NOT NULL;

-- name: holders
-- Channels in which a file was shared. Parameters: file (its key in the ledger). Index: primary keys. Grain: channel.
SELECT p.partition
FROM partitions AS p
INNER JOIN source_memory AS m ON p.source = m.source AND p.partition = m.partition AND m.key = :file
WHERE p.source = 'slack';

-- name: touch!
-- Tell the next sync of a channel what to read again. Parameters: partition, key, value jsonb.
INSERT INTO source_memory (source, partition, key, value) VALUES ('slack', :partition, :key, :value::jsonb)
ON CONFLICT DO NOTHING;

-- name: hide
-- Hide the documents that a channel's waiting events concern; see the function. Parameters: partition. Grain: document.
SELECT h::text AS doc_id FROM hide_touched(:partition) AS h;

-- name: show!
-- Show documents again whose events a sync has processed and whose current content is indexed. Parameters: source.
DELETE FROM hidden_documents AS h
USING documents AS d
WHERE
    d.doc_id = h.doc_id AND d.source = :source
    AND (d.state = 'deleted' OR starts_with(d.indexed_content, d.content_key || '|'))
    AND NOT EXISTS (
        SELECT 1 FROM source_memory AS m
        WHERE m.source = d.source AND m.partition = d.partition AND m.key = 'e:' || h.event_id
    );

-- name: forget!
-- Delete events so old that no source redelivers them. Parameters: days.
DELETE FROM source_events WHERE received_at < now() - make_interval(days => :days::integer);

-- name: waiting
-- Events without a requested sync, if one of them hides something or has waited long enough. Parameters: source, seconds.
-- Index: source_events_waiting.
SELECT event_id, partition FROM source_events
WHERE
    source = :source AND asked_at IS NULL
    AND EXISTS (
        SELECT 1 FROM source_events AS e
        WHERE
            e.source = :source AND e.asked_at IS NULL
            AND (e.urgent OR e.received_at < now() - make_interval(secs => :seconds))
    );

-- name: asked!
-- Record that a sync was requested. Parameters: event_ids text[].
UPDATE source_events SET asked_at = now() WHERE event_id = ANY(:event_ids);
