-- What an agent asked a person to allow, until the person decides. Grain: request.
CREATE TABLE agent_requests (
    request_hash text PRIMARY KEY,
    request jsonb NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX agent_requests_expires ON agent_requests (expires_at);

-- Agents that people have connected. Off-boarding someone: DELETE FROM agents WHERE email = …. Grain: connection of an agent to a person.
CREATE TABLE agents (
    agent_id uuid PRIMARY KEY,
    email text NOT NULL,
    -- The provider of the session in which the person allowed it.
    provider text NOT NULL,
    client_hash text NOT NULL,
    -- As the agent calls itself; nobody has checked it.
    name text NOT NULL,
    redirect_uri text NOT NULL,
    redirect_uri_sent boolean NOT NULL,
    code_challenge text NOT NULL,
    created_at timestamptz NOT NULL,
    -- Null until the code is exchanged.
    seen_at timestamptz,
    expires_at timestamptz NOT NULL
);
CREATE INDEX agents_email ON agents (email);
CREATE INDEX agents_expires ON agents (expires_at);

-- Codes, access tokens and refresh tokens of agents, of which only hashes are stored. Used codes and refresh tokens stay until they
-- expire, so that a second use is noticed. Grain: token.
CREATE TABLE agent_tokens (
    token_hash text PRIMARY KEY,
    agent_id uuid NOT NULL REFERENCES agents (agent_id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('code', 'access', 'refresh')),
    used_at timestamptz,
    expires_at timestamptz NOT NULL
);
CREATE INDEX agent_tokens_agent ON agent_tokens (agent_id);
