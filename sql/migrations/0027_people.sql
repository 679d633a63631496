-- People as directories and SCIM report them. Someone whom any of them reports as inactive is refused everywhere, whatever their token,
-- session or key says. Grain: (source, email).
CREATE TABLE people (
    source text NOT NULL,
    email text NOT NULL,
    external_id text,
    name text,
    active boolean NOT NULL DEFAULT TRUE,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, email)
);
CREATE INDEX people_email ON people (email);
