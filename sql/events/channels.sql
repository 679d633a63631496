-- Notification channels over which sources announce changes. Grain: channel, unless a statement says otherwise.

-- name: channels
-- All channels of a source, newest first. Parameters: source.
SELECT channel_id::text AS channel_id, feed, partitions, account, address, resource_id, created_at, expires_at, notified_at, error
FROM notification_channels
WHERE source = :source
ORDER BY created_at DESC;

-- name: add_channel!
-- Record a channel before it is created. Parameters: channel_id, source, feed, partitions text[], account, address, token_hash.
INSERT INTO notification_channels (channel_id, source, feed, partitions, account, address, token_hash)
VALUES (:channel_id::uuid, :source, :feed, :partitions, :account, :address, :token_hash);

-- name: made_channel!
-- Record that a channel was created, or why not. Parameters: channel_id, resource_id, expires_at, error; null where inapplicable.
UPDATE notification_channels SET resource_id = :resource_id, expires_at = :expires_at, error = :error
WHERE channel_id = :channel_id::uuid;

-- name: cover!
-- Set the partitions for which a channel's feed is read. Parameters: channel_id, partitions text[].
UPDATE notification_channels SET partitions = :partitions WHERE channel_id = :channel_id::uuid;

-- name: drop_channel!
-- Delete a channel. Parameters: channel_id.
DELETE FROM notification_channels WHERE channel_id = :channel_id::uuid;

-- name: notified!
-- Record that a channel delivered a message. Parameters: channel_id.
UPDATE notification_channels SET notified_at = now() WHERE channel_id = :channel_id::uuid;

-- name: changed
-- Record a change in some partitions; where a sync is already waiting to be requested, its event comes again. Parameters: event_id, source,
-- partitions text[]. Index: source_events_waiting. Grain: event.
WITH again AS (
    UPDATE source_events AS e SET received_at = now()
    WHERE e.source = :source AND e.asked_at IS NULL AND e.partition = ANY(:partitions)
    RETURNING e.partition
)

INSERT INTO source_events (event_id, source, partition, kind, urgent)
SELECT :event_id || ':' || p.name, :source, p.name, 'changed', TRUE
FROM unnest(:partitions::text []) AS p (name)
WHERE p.name NOT IN (SELECT a.partition FROM again AS a)
ON CONFLICT DO NOTHING
RETURNING event_id;
