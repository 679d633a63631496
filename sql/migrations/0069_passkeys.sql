-- Passkeys that people have registered, for installations without a provider of sign-in. Grain: passkey. Bound: ten of a person
-- (`insert_passkey` in sql/passkeys.sql). user_handle: random, the same for all passkeys of a person, and all that a device keeps of them
-- besides their email. sign_count: as the device last reported it; 0 from devices that do not count.
CREATE TABLE passkeys (
    passkey_id uuid PRIMARY KEY,
    email text NOT NULL,
    user_handle bytea NOT NULL,
    credential_id bytea NOT NULL UNIQUE,
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX passkeys_email ON passkeys (email);
