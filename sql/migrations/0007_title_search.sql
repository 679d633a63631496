-- A document is found by its name: keyword search reads its words before the first passage. Both tables are written anew; the next sync
-- puts the words in and renews the index's keyword vectors, embedding nothing.
ALTER TABLE chunks DROP COLUMN tsv;
ALTER TABLE chunks_beside DROP COLUMN tsv;
ALTER TABLE chunks ADD COLUMN name_words text NOT NULL DEFAULT '';
ALTER TABLE chunks_beside ADD COLUMN name_words text NOT NULL DEFAULT '';
ALTER TABLE chunks ADD COLUMN tsv tsvector NOT NULL
GENERATED ALWAYS AS (to_tsvector('english', name_words || E'\n' || chunk_text)) STORED;
ALTER TABLE chunks_beside ADD COLUMN tsv tsvector NOT NULL
GENERATED ALWAYS AS (to_tsvector('english', name_words || E'\n' || chunk_text)) STORED;
CREATE INDEX chunks_tsv ON chunks USING gin (tsv);
CREATE INDEX chunks_beside_tsv ON chunks_beside USING gin (tsv);

-- What the keyword vectors of a document were made with, beyond its texts: version and names; null: from before this was kept.
ALTER TABLE documents ADD COLUMN indexed_keywords text;
ALTER TABLE index_entries ADD COLUMN keywords text;
