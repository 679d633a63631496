-- The channel that a message claims to come over. Parameters: channel_id. Grain: channel. Index: primary key.
SELECT partitions, token_hash FROM notification_channels WHERE channel_id = %(channel_id)s::uuid AND source = %(source)s;
