-- Memberships by groups: `through` is the member group of `principal` that leads to the person (null: a direct member). `read_at` is when
-- the oldest group on the way was read; null: with the source, at `source_states.directory_at`.
ALTER TABLE directory ADD COLUMN through text;
ALTER TABLE directory ADD COLUMN read_at timestamptz;
CREATE INDEX directory_principal ON directory (source, principal);

-- Why a source of people could not be read, or what of it waits for a decision.
ALTER TABLE source_states ADD COLUMN directory_note text;
