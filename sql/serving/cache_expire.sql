-- Purpose: drop cached candidates past their time. Grain: cache key. Index: search_cache_expires.
DELETE FROM search_cache
WHERE expires_at < now()
