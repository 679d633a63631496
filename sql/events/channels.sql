-- Channels over which sources send word of changes. Grain: channel, unless a statement says otherwise.

-- name: channels
-- All channels of a source, newest first. Parameters: source.
SELECT channel_id::text AS channel_id, feed, partitions, account, address, resource_id, created_at, expires_at, notified_at, error
FROM notification_channels
WHERE source = :source
ORDER BY created_at DESC;

-- name: add_channel!
-- Note a channel that is about to be made. Parameters: channel_id, source, feed, partitions text[], account, address, token_hash.
INSERT INTO notification_channels (channel_id, source, feed, partitions, account, address, token_hash)
VALUES (:channel_id::uuid, :source, :feed, :partitions, :account, :address, :token_hash);

-- name: made_channel!
-- A channel was made, or could not be. Parameters: channel_id, resource_id, expires_at, error; what does not apply is null.
UPDATE notification_channels SET resource_id = :resource_id, expires_at = :expires_at, error = :error
WHERE channel_id = :channel_id::uuid;

-- name: cover!
-- The partitions that a channel's feed is read for. Parameters: channel_id, partitions text[].
UPDATE notification_channels SET partitions = :partitions WHERE channel_id = :channel_id::uuid;

-- name: drop_channel!
-- Forget a channel. Parameters: channel_id.
DELETE FROM notification_channels WHERE channel_id = :channel_id::uuid;

-- name: notified!
-- A message came over a channel. Parameters: channel_id.
UPDATE notification_channels SET notified_at = now() WHERE channel_id = :channel_id::uuid;

-- name: changed
-- Keep that something has changed in some partitions, unless a sync of them is still to be asked for. Parameters: event_id, source,
-- partitions text[]. Index: source_events_waiting. Grain: event.
INSERT INTO source_events (event_id, source, partition, kind, urgent)
SELECT :event_id || ':' || p.name, :source, p.name, 'changed', TRUE
FROM unnest(:partitions::text []) AS p (name)
WHERE NOT EXISTS (
    SELECT 1 FROM source_events AS e WHERE e.source = :source AND e.asked_at IS NULL AND e.partition = p.name
)
ON CONFLICT DO NOTHING
RETURNING event_id;
