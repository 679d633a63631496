-- Words of new passages wait in a list until their index takes them up, and every search compares its words with the whole list. At
-- Postgres' own limit, 4 MB, a search that corrects a word takes ten times as long after a large sync (`python -m bench.search`).
ALTER INDEX chunks_tsv SET (gin_pending_list_limit = 256);
