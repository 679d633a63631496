-- Provider tokens that users granted for a source, already encrypted. Grain: provider.

-- name: put_credential!
-- Store a provider's token, replacing the previous one. Parameters: provider, account, secret, scopes, updated_by.
INSERT INTO credentials (provider, account, secret, scopes, updated_by)
VALUES (:provider, :account, :secret, :scopes, :updated_by)
ON CONFLICT (provider) DO UPDATE SET
    account = excluded.account, secret = excluded.secret, scopes = excluded.scopes, updated_at = now(), updated_by = excluded.updated_by;

-- name: credential^
-- A provider's encrypted token. Parameters: provider. Index: primary key.
SELECT account, secret, scopes, updated_at, updated_by
FROM credentials
WHERE provider = :provider;

-- name: rotate_credential!
-- Replace the encrypted token, unless another one was stored meanwhile. Parameters: provider, old, secret.
UPDATE credentials SET secret = :secret
WHERE provider = :provider AND secret = :old;
