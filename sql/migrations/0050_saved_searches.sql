-- Searches that people keep. Grain: person and name. Bound: a hundred of a person (`save` in sql/saved_searches.sql).
CREATE TABLE saved_searches (
    search_id uuid PRIMARY KEY,
    email text NOT NULL,
    name text NOT NULL,
    query text NOT NULL,
    filters jsonb NOT NULL,
    saved_at timestamptz NOT NULL,
    UNIQUE (email, name)
);
