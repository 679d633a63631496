-- Candidates of searches are cached in the web service's memory.
DROP TABLE search_cache;
