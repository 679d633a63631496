-- Passkeys that people sign in with. Grain: passkey. A person's exist for nobody else.

-- name: own_passkeys
-- The passkeys of a person, newest first. Parameters: email. Grain: passkey. Index: passkeys_email.
SELECT
    passkey_id::text AS passkey_id,
    name,
    created_at,
    used_at
FROM passkeys
WHERE email = :email
ORDER BY created_at DESC, passkey_id ASC
LIMIT 100;

-- name: registered
-- What devices know of the passkeys of a person, so that none registers a second one. Parameters: email. Grain: passkey.
-- Index: passkeys_email.
SELECT
    user_handle,
    credential_id
FROM passkeys
WHERE email = :email
ORDER BY created_at
LIMIT 100;

-- name: is_fresh$
-- Whether a session of a person began lately. Parameters: session_id, email, since. Grain: one row. Index: primary key.
SELECT
    EXISTS (
        SELECT 1 FROM sessions
        WHERE session_id = :session_id::uuid AND email = :email AND created_at >= :since
    ) AS is_fresh;

-- name: insert_passkey!
-- Store a passkey of the person of a session. Nothing is stored if the session is over or did not begin lately, if the person has `most`,
-- or if the credential is known already. Parameters: passkey_id, session_id, email, since, user_handle, credential_id, public_key,
-- sign_count, name, now, most. Grain: passkey. Indexes: primary keys, passkeys_email.
INSERT INTO passkeys (passkey_id, email, user_handle, credential_id, public_key, sign_count, name, created_at)
SELECT
    :passkey_id::uuid,
    s.email,
    :user_handle,
    :credential_id,
    :public_key,
    :sign_count,
    :name,
    :now
FROM sessions AS s
WHERE
    s.session_id = :session_id::uuid
    AND s.email = :email
    AND s.created_at >= :since
    AND :most > (SELECT count(*) FROM passkeys AS p WHERE p.email = :email AND p.passkey_id <> :passkey_id::uuid)
FOR KEY SHARE OF s
ON CONFLICT (credential_id) DO UPDATE SET name = excluded.name
WHERE passkeys.passkey_id = excluded.passkey_id;

-- name: passkey_of
-- The passkey of a credential. Parameters: credential_id. Grain: passkey. Index: unique (credential_id).
SELECT
    passkey_id::text AS passkey_id,
    email,
    user_handle,
    public_key
FROM passkeys
WHERE credential_id = :credential_id;

-- name: use_passkey!
-- Record that a passkey was used. Nothing is changed if it was removed, or if its counter did not go up although it counts: then another
-- device has a copy of it. A repetition, which has the same `now`, is the same use. Parameters: passkey_id, sign_count, now. Grain: passkey.
-- Index: primary key.
UPDATE passkeys SET sign_count = :sign_count, used_at = :now
WHERE
    passkey_id = :passkey_id::uuid
    AND (sign_count < :sign_count OR (sign_count = 0 AND :sign_count = 0) OR (sign_count = :sign_count AND used_at = :now));

-- name: remove_passkey!
-- Remove a passkey of a person, once the sign-ins that lock it (`session_insert`) have ended. Parameters: passkey_id, email. Grain: passkey.
-- Index: primary key.
DELETE FROM passkeys WHERE passkey_id = :passkey_id::uuid AND email = :email;

-- name: end_sessions_of
-- End the sessions that a passkey began, but the one that asks for it. It is a statement of its own, after `remove_passkey`, to see those that
-- began meanwhile. Returns their ids. Parameters: passkey_id, email, session_id. Grain: session. Index: sessions_email.
DELETE FROM sessions
WHERE email = :email AND provider = 'passkey' AND subject = :passkey_id AND session_id <> :session_id::uuid
RETURNING session_id::text AS session_id;

-- name: remove_passkeys_of
-- Remove all passkeys of people. Returns whose and which. Parameters: emails. Grain: passkey. Index: passkeys_email.
DELETE FROM passkeys WHERE email = ANY(:emails::text []) RETURNING email, passkey_id::text AS id;

-- name: remove_all_passkeys!
-- Remove the passkeys of everyone, once a provider signs people in: it does not know them. Grain: passkey.
DELETE FROM passkeys;
