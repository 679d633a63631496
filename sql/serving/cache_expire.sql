-- Purpose: delete expired candidates and answers. Grain: cache key.
-- Index: search_cache_expires, answer_cache_expires.
WITH expired_answers AS (
    DELETE FROM answer_cache
    WHERE expires_at < now()
)

DELETE FROM search_cache
WHERE expires_at < now()
