-- Settings of sources that administrators stored in the browser; those in the environment take precedence. Grain: (source, name).
-- value: of a setting that is not secret. secret: of one that is, encrypted with ENCRYPTION_KEYS.
-- Bound: the settings that the declarations of the sources name.
CREATE TABLE source_settings (
    source text NOT NULL,
    name text NOT NULL,
    value text,
    secret bytea,
    updated_at timestamptz NOT NULL DEFAULT now(),
    updated_by text NOT NULL,
    PRIMARY KEY (source, name),
    CHECK ((value IS NULL) <> (secret IS NULL))
);
