-- Tokens that were revoked before they expire. Rows may be deleted once the token has expired. Grain: token.
CREATE TABLE revoked_tokens (
    token_id text PRIMARY KEY,
    revoked_by text NOT NULL,
    revoked_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

-- Browser sessions. The cookie holds the secret, of which only a hash is stored. Off-boarding someone: DELETE FROM sessions WHERE
-- email = …. Grain: session.
CREATE TABLE sessions (
    session_id uuid PRIMARY KEY,
    secret_hash text NOT NULL UNIQUE,
    email text NOT NULL,
    provider text NOT NULL,
    subject text NOT NULL,
    browser text NOT NULL,
    -- As the provider reported them at groups_at; too old ones grant nothing.
    groups text [] NOT NULL,
    groups_at timestamptz NOT NULL,
    -- Refresh token and ID token of the provider, encrypted.
    secrets bytea,
    refreshed_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_email ON sessions (email);
CREATE INDEX sessions_expires ON sessions (expires_at);
