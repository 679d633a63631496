-- Passages are compared with each other by sketches of their vectors, which the recheck reads with their texts; see resources/sketch.py.
-- The next sync fills them in from the index, embedding nothing.
ALTER TABLE chunks ADD COLUMN sketch text;
ALTER TABLE chunks_beside ADD COLUMN sketch text;

-- Whether anything at all is archived: searches leave the condition out while nothing is.
CREATE INDEX documents_archived ON documents (doc_id) WHERE state = 'live' AND tags ->> 'lifecycle' = 'archived';
