-- Purpose: the index's version and, if still valid, the cached candidates of a search. Parameters: cache_key.
-- Grain: one row always. Index: primary key of search_cache.
SELECT
    v.version,
    c.candidates
FROM index_version AS v
LEFT JOIN search_cache AS c
    ON c.cache_key = %(cache_key)s AND c.index_version = v.version AND c.expires_at > now()
