-- Several accounts per provider. is_first: the account that was connected while there was none; its roots keep the names that they had
-- before there could be others. Grain: (provider, account).
ALTER TABLE credentials
ADD COLUMN is_first boolean NOT NULL DEFAULT TRUE,
ADD COLUMN connected_at timestamptz NOT NULL DEFAULT now();
UPDATE credentials SET connected_at = updated_at;
ALTER TABLE credentials ALTER COLUMN is_first DROP DEFAULT;
ALTER TABLE credentials DROP CONSTRAINT credentials_pkey;
ALTER TABLE credentials ADD PRIMARY KEY (provider, account);
CREATE UNIQUE INDEX credentials_first ON credentials (provider) WHERE is_first;
