-- What the index has yet to be told to withhold: the changes were made while it did not answer. Until a row is gone, nothing is answered
-- without Postgres. kind: document, person, token or partition; key: its id, email, token id, or `source:partition`.
-- Grain: (kind, key).
CREATE TABLE unwithheld (
    kind text NOT NULL,
    key text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, key)
);

-- Points carry no time of a permission check any more, so what the index knows of a partition is what the new collection gets.
COMMENT ON COLUMN partitions.acl_indexed_at IS 'The acl_checked_at that searches without Postgres know.';
