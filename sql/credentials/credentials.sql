-- Tokens that people gave for a source, encrypted before they come here. Grain: provider.

-- name: put_credential!
-- Keep a provider's token; it takes the place of the one before. Parameters: provider, account, secret, scopes, updated_by.
INSERT INTO credentials (provider, account, secret, scopes, updated_by)
VALUES (:provider, :account, :secret, :scopes, :updated_by)
ON CONFLICT (provider) DO UPDATE SET
    account = excluded.account, secret = excluded.secret, scopes = excluded.scopes, updated_at = now(), updated_by = excluded.updated_by;

-- name: credential^
-- A provider's token as it is kept. Parameters: provider. Index: primary key.
SELECT account, secret, scopes, updated_at, updated_by
FROM credentials
WHERE provider = :provider;

-- name: rotate_credential!
-- The same token under another key; nothing happens when somebody has put a new one meanwhile. Parameters: provider, old, secret.
UPDATE credentials SET secret = :secret
WHERE provider = :provider AND secret = :old;

-- name: drop_credential!
-- Forget a provider's token. Parameters: provider. Index: primary key.
DELETE FROM credentials
WHERE provider = :provider;
