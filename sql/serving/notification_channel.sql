-- Purpose: the channel that a notification names. Parameters: channel_id, source. Grain: channel. Index: primary key.
SELECT partitions, token_hash FROM notification_channels WHERE channel_id = %(channel_id)s::uuid AND source = %(source)s;
