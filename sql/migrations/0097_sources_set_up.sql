-- How long a source has waited for its first sync.

-- set_up_at: when the source was first seen set up. Null: it has not been.
ALTER TABLE source_states ADD COLUMN set_up_at timestamptz;
