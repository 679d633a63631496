-- Purpose: which collections have the numbers of readers (`reader_ids`) on all of their points, so that searches of people with very many
-- principals can look up numbers instead of texts. Those that exist do not; `concordance reindex` makes one that does.
ALTER TABLE index_collections ADD COLUMN reader_ids boolean NOT NULL DEFAULT FALSE;
