-- Passages are compared with each other by sketches of their vectors, which the recheck reads with their texts; see resources/sketch.py.
-- The next sync fills them in from the index, embedding nothing.
ALTER TABLE chunks ADD COLUMN sketch text;
ALTER TABLE chunks_beside ADD COLUMN sketch text;
