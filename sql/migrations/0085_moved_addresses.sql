-- Google Drive may be read while an address is taken from its account: what was read of it before is saved afterwards.

-- moved_at: when documents were last taken from the address, as its account had got another or it was given to another account.
ALTER TABLE people ADD COLUMN moved_at timestamptz;

CREATE INDEX people_moved ON people (source) WHERE moved_at IS NOT NULL;
