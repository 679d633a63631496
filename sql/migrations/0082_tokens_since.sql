-- An address may be given to another person, whom the tokens made here for the former one must not sign in.

-- tokens_since: since when the source names this account for the address; tokens of ours that were made before are refused. Null: it has
-- named no other.
ALTER TABLE people ADD COLUMN tokens_since timestamptz;
