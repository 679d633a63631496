-- Provider tokens that users granted for a source, already encrypted. Grain: (provider, account).

-- name: put_credential!
-- Store the token of an account, replacing its previous one. Parameters: provider, account, secret, scopes, updated_by.
INSERT INTO credentials (provider, account, is_first, secret, scopes, updated_by)
VALUES (
    :provider,
    :account,
    NOT EXISTS (SELECT 1 FROM credentials AS c WHERE c.provider = :provider AND c.is_first),
    :secret,
    :scopes,
    :updated_by
)
ON CONFLICT (provider, account) DO UPDATE SET
    secret = excluded.secret, scopes = excluded.scopes, updated_at = now(), updated_by = excluded.updated_by;

-- name: accounts
-- The accounts of a provider, those connected earlier first. Parameters: provider. Index: primary key.
SELECT account, is_first, connected_at, updated_at, updated_by
FROM credentials
WHERE provider = :provider
ORDER BY connected_at ASC, account ASC;

-- name: credential^
-- The encrypted token of an account. Parameters: provider, account. Index: primary key.
SELECT account, secret, scopes, updated_at, updated_by
FROM credentials
WHERE provider = :provider AND account = :account;

-- name: rotate_credential!
-- Replace the encrypted token, unless another one was stored meanwhile. Parameters: provider, account, old, secret.
UPDATE credentials SET secret = :secret
WHERE provider = :provider AND account = :account AND secret = :old;

-- name: remove_credential!
-- Forget the token of an account. Parameters: provider, account.
DELETE FROM credentials
WHERE provider = :provider AND account = :account;
