-- Where sources send word that something has changed: for Google Drive, one channel a change feed, made with `changes.watch`.

-- A channel is known before it is made, since Google sends its first message at once; `expires_at` null: it was not made, `error`
-- says why. `feed`: the id of a shared drive, empty for the account's own feed. `token_hash`: SHA-256 of the secret that comes with each
-- message. `account` and `address`: whose feed it is and where the messages go; a channel for others is replaced. Grain: channel.
CREATE TABLE notification_channels (
    channel_id uuid PRIMARY KEY,
    source text NOT NULL,
    feed text NOT NULL,
    partitions text [] NOT NULL,
    account text NOT NULL,
    address text NOT NULL,
    token_hash bytea NOT NULL,
    resource_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    notified_at timestamptz,
    error text
);
CREATE INDEX notification_channels_feed ON notification_channels (source, feed);
