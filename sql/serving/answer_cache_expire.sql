-- Purpose: delete expired answers. Grain: cache key. Index: answer_cache_expires.
DELETE FROM answer_cache
WHERE expires_at < now()
